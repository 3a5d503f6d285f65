"""TLS in front of a server that has none: a proxy, and certificates made on the spot."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

SSL_REQUEST = bytes.fromhex("0000000804d2162f")
"""What a client of PostgreSQL sends before anything else where it wants TLS."""


@dataclass(frozen=True, slots=True)
class Certificates:
    """A certificate for `localhost`, its key, and the authority that signed it."""

    authority: Path
    certificate: Path
    key: Path


def makers() -> list[str]:
    """Return the program that makes certificates, or none."""
    found = shutil.which("openssl")
    return [] if found is None else [found]


def make_certificates(openssl: str, folder: Path) -> Certificates:
    """Make an authority and a certificate of it."""
    folder.mkdir(parents=True, exist_ok=True)
    made = Certificates(folder / "ca.pem", folder / "server.pem", folder / "server.key")
    new = [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
           "-nodes", "-days", "2"]  # fmt: skip
    signer = folder / "ca.key"
    _run(*new, "-keyout", signer, "-out", made.authority, "-subj", "/CN=authority")
    _run(
        *(*new, "-keyout", made.key, "-out", made.certificate, "-subj", "/CN=localhost"),
        *("-CA", made.authority, "-CAkey", signer, "-addext", "subjectAltName=DNS:localhost"),
        *("-addext", "basicConstraints=critical,CA:FALSE"),
    )
    return made


def _run(*words: object) -> None:
    subprocess.run([str(word) for word in words], check=True, capture_output=True, timeout=60)


class TlsProxy:
    """Takes TLS connections and hands what comes over them to a server on this host.

    `postgresql` says that a client asks for TLS in the words of that protocol first. Connections
    without TLS are counted in `refused` and not passed on.
    """

    def __init__(self, server: tuple[str, int], certificates: Certificates, *, postgresql: bool):
        self._server = server
        self._postgresql = postgresql
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._context.load_cert_chain(certificates.certificate, certificates.key)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self.served = 0
        self.refused = 0
        self._thread = threading.Thread(target=self._accept, daemon=True)

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        # Closing alone does not wake who waits in accept.
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        for one in self._open:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            client.settimeout(30)
            try:
                if self._postgresql:
                    if client.recv(8) != SSL_REQUEST:
                        raise ssl.SSLError("no TLS was asked for")
                    client.sendall(b"S")
                secured = self._context.wrap_socket(client, server_side=True)
            except OSError:
                self.refused += 1
                client.close()
                continue
            self.served += 1
            secured.settimeout(None)
            server = socket.create_connection(self._server)
            self._open += [secured, server]
            for source, target in ((secured, server), (server, secured)):
                threading.Thread(target=_hand_on, args=(source, target), daemon=True).start()


def _hand_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)
