"""Serve metrics over HTTP: to anybody on this host, to others by password."""

from __future__ import annotations

import logging
import socket
import ssl
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from afterturn.credentials import Credentials, Place, check_access, is_loopback
from afterturn.exits import CommandError, Exit

log = logging.getLogger(__name__)

PATH = "/metrics"
SILENT_SECONDS = 10.0
"""How long a client may keep a connection without a word."""


class MetricsServer:
    """Answers `GET /metrics` from a thread of its own until it is closed."""

    def __init__(
        self,
        registry: CollectorRegistry,
        place: Place,
        credentials: Credentials | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Listen at `place`; port 0 takes any that is free. Raises `CommandError` where it cannot,
        and where other hosts could look without credentials."""
        check_access(place, credentials, "--credentials")
        answer = partial(_Answer, registry=registry, credentials=credentials, lock=Lock())
        family = socket.AF_INET6 if ":" in place.host else socket.AF_INET
        server_of_family = type("_Server", (_Server,), {"address_family": family})
        try:
            self._server: _Server = server_of_family((place.host, place.port), answer)
        except (OSError, OverflowError) as error:
            raise CommandError(
                f"cannot listen on {place.host} port {place.port}: "
                f"{getattr(error, 'strerror', None) or error}",
                Exit.UNAVAILABLE,
            ) from error
        self._scheme = "http"
        if tls is not None:
            self._scheme = "https"
            self._server.tls = tls
        self._thread = Thread(
            target=self._server.serve_forever, name="afterturn-metrics", daemon=True
        )

    @property
    def url(self) -> str:
        """Where it answers."""
        host, port = self._server.server_address[:2]
        shown = f"[{host!s}]" if ":" in str(host) else str(host)
        return f"{self._scheme}://{shown}:{port}{PATH}"

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def wait(self) -> None:
        """Wait until it ends, which it does not by itself."""
        self._thread.join()

    def close(self) -> None:
        """Answer no more."""
        if self._thread.ident is not None:
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()


def tls_context(certificate: Path | None, key: Path | None) -> ssl.SSLContext | None:
    """TLS with that certificate and its key, both PEM files; None without them.

    Raises `CommandError` where they cannot be used.
    """
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise CommandError("--tls-certificate and --tls-key go together", Exit.USAGE)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, key)
    except OSError as error:
        raise CommandError(
            f"the certificate {certificate} and its key {key} cannot be used: "
            f"{error.strerror or type(error).__name__}",
            Exit.CONFIGURATION,
        ) from error
    return context


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    tls: ssl.SSLContext | None = None

    def finish_request(self, request: object, client_address: object) -> None:
        # In the connection's own thread, since a client may take its time for the handshake.
        connection: socket.socket = request  # type: ignore[assignment] # TCP, so always a socket
        connection.settimeout(SILENT_SECONDS)
        if self.tls is None:
            super().finish_request(connection, client_address)
            return
        with self.tls.wrap_socket(connection, server_side=True) as secured:
            super().finish_request(secured, client_address)

    def handle_error(self, _request: object, _client_address: object) -> None:
        # A client that goes away is no fault of ours.
        log.debug("a request for metrics broke off", exc_info=True)


class _Answer(BaseHTTPRequestHandler):
    server_version = "afterturn"
    sys_version = ""

    def __init__(
        self,
        *connection: object,
        registry: CollectorRegistry,
        credentials: Credentials | None,
        lock: Lock,
    ) -> None:
        self._registry = registry
        self._credentials = credentials
        self._lock = lock
        super().__init__(*connection)  # type: ignore[arg-type] # what the server hands on

    def do_GET(self) -> None:
        if not self._may_look():
            return
        if urlsplit(self.path).path != PATH:
            self._say(HTTPStatus.NOT_FOUND, f"The metrics are at {PATH}.\n")
            return
        encode, content_type = choose_encoder(self.headers.get("Accept", ""))
        # One scrape at a time: who asks more often waits, the database does not suffer for it.
        with self._lock:
            body = encode(self._registry)
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", content_type)
        self._end(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as in the base class
        log.debug(format, *args)

    def _may_look(self) -> bool:
        if self._credentials is not None:
            if self._credentials.admit(self.headers.get("Authorization")):
                return True
            self.send_response(HTTPStatus.UNAUTHORIZED)
            self.send_header("WWW-Authenticate", 'Basic realm="afterturn", charset="UTF-8"')
            self._end(b"A name and a password are needed.\n")
            return False
        # A page in a browser on this host may call itself anything but not this host.
        host = urlsplit(f"//{self.headers.get('Host', '')}").hostname or ""
        if is_loopback(host):
            return True
        self._say(HTTPStatus.FORBIDDEN, "Ask by the name of this host.\n")
        return False

    def _say(self, status: HTTPStatus, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self._end(text.encode())

    def _end(self, body: bytes) -> None:
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)
