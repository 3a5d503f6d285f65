"""Serve metrics over HTTP: Prometheus's own WSGI application behind a check of who asks."""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import Callable, Iterable
from pathlib import Path
from threading import Lock, Thread
from typing import Any, TypeAlias
from urllib.parse import urlsplit
from wsgiref.simple_server import WSGIRequestHandler, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer

from afterturn.credentials import Credentials, Place, check_access, is_loopback
from afterturn.exits import CommandError, Exit

log = logging.getLogger(__name__)

Application: TypeAlias = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
Headers: TypeAlias = list[tuple[str, str]]

PATH = "/metrics"
SILENT_SECONDS = 10.0
"""How long a client may keep a connection without sending anything."""


class MetricsServer:
    """A server that answers `GET /metrics` in threads of its own until it is closed."""

    def __init__(
        self,
        registry: CollectorRegistry,
        place: Place,
        credentials: Credentials | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Listen at `place`; port 0 takes any that is free.

        Raises `CommandError` where that fails, and where other hosts could read the metrics
        without credentials.
        """
        check_access(place, credentials, "--credentials")
        application = guarded(make_wsgi_app(registry), credentials)
        server = _Server6 if ":" in place.host else _Server
        try:
            self._server = make_server(place.host, place.port, application, server, _Handler)
        except (OSError, OverflowError) as error:
            raise CommandError(
                f"cannot listen on {place.host} port {place.port}: "
                f"{getattr(error, 'strerror', None) or error}",
                Exit.UNAVAILABLE,
            ) from error
        self._scheme = "http"
        if tls is not None:
            self._scheme = "https"
            # The handshake comes with the first read, in the connection's own thread: a client may
            # take its time for it.
            self._server.socket = tls.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
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
        """Stop answering."""
        if self._thread.ident is not None:
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()


def guarded(application: Application, credentials: Credentials | None) -> Application:
    """Wrap `application` so that it answers those with a password only, or, without `credentials`,
    requests that name this host; and one request at a time."""
    lock = Lock()

    def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        def start(status: str, headers: Headers) -> Any:
            return start_response(
                status, [*headers, ("Cache-Control", "no-store"), ("Server", "afterturn")]
            )

        refusal = _refusal(environ, credentials)
        if refusal is not None:
            status, headers, text = refusal
            start(status, [("Content-Type", "text/plain; charset=utf-8"), *headers])
            return [text.encode()]
        # Whoever asks more often waits: the database does not suffer for it.
        with lock:
            return application(environ, start)

    return answer


def _refusal(
    environ: dict[str, Any], credentials: Credentials | None
) -> tuple[str, Headers, str] | None:
    """Return the answer to a request that is not served; None for one that is."""
    if credentials is not None:
        if not credentials.admit(environ.get("HTTP_AUTHORIZATION")):
            challenge = ("WWW-Authenticate", 'Basic realm="afterturn", charset="UTF-8"')
            return "401 Unauthorized", [challenge], "A name and a password are needed.\n"
    # A page in a browser on this host may reach it under any name but the host's own.
    elif not is_loopback(urlsplit(f"//{environ.get('HTTP_HOST', '')}").hostname or ""):
        return "403 Forbidden", [], "Ask by the name of this host.\n"
    if environ["PATH_INFO"] != PATH:
        return "404 Not Found", [], f"The metrics are at {PATH}.\n"
    return None


def tls_context(certificate: Path | None, key: Path | None) -> ssl.SSLContext | None:
    """Return TLS with that certificate and its key, both PEM files; None without them.

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


class _Server(ThreadingWSGIServer):
    def handle_error(self, _request: object, _client_address: object) -> None:
        # A client that goes away is no fault of ours.
        log.debug("a request for metrics broke off", exc_info=True)


class _Server6(_Server):
    address_family = socket.AF_INET6


class _Handler(WSGIRequestHandler):
    timeout = SILENT_SECONDS

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as in the base class
        log.debug(format, *args)
