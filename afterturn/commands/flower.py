"""`afterturn flower`."""

from __future__ import annotations

import secrets
import signal
from typing import Annotated

import typer

from afterturn.broker import check_transport
from afterturn.commands.options import CredentialsFile, TlsCertificate, TlsKey
from afterturn.console import Output
from afterturn.credentials import Credentials, Place, check_access
from afterturn.exits import CommandError, Exit
from afterturn.invocation import Invocation
from afterturn.metrics.server import tls_context
from afterturn.telemetry import LogLevel, log_to_stderr
from tasks.application import make_app
from workers.workshop import Workshop

DEFAULT_PLACE = "127.0.0.1:5555"
OPERATOR = "afterturn"


def flower(
    context: typer.Context,
    *,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where to answer.")
    ] = DEFAULT_PLACE,
    credentials: CredentialsFile = None,
    tls_certificate: TlsCertificate = None,
    tls_key: TlsKey = None,
    log_level: Annotated[
        LogLevel, typer.Option(help="What is logged to standard error.")
    ] = LogLevel.WARNING,
) -> None:
    """Serve Flower: queues, workers (started with --events) and tasks, to look at.

    Read-only and by password: without --credentials one is made up for this run and printed, for
    this host only. Other settings of Flower come from FLOWER_… in the environment.
    """
    # It takes half a second to load, and changes options of the process.
    from afterturn.flower_site import Site, knows_people, make_site  # noqa: PLC0415

    output = Output()
    place = Place.read(listen, "--listen")
    known = None if credentials is None else Credentials.read(credentials)
    if known is not None and not all(pair.isascii() for pair in known.pairs):
        raise CommandError(
            "Flower cannot compare names and passwords with other characters than ASCII, and "
            f"{credentials} holds some",
            Exit.CONFIGURATION,
        )
    asked_elsewhere = known is None and knows_people()
    if not asked_elsewhere:
        check_access(place, known, "--credentials")
    tls_context(tls_certificate, tls_key)
    settings = Invocation.of(context).settings()
    if settings.broker_url is None:
        raise CommandError(
            "Flower watches a broker and none is configured; set broker_url in the configuration "
            "or BROKER_URL in the environment",
            Exit.CONFIGURATION,
        )
    check_transport(settings.broker_url)
    log_to_stderr(log_level)
    told = ""
    if known is None and not asked_elsewhere:
        password = secrets.token_urlsafe(12)
        known = Credentials((f"{OPERATOR}:{password}",))
        told = f" Name {OPERATOR}, password {password}."
    app = make_app(settings.broker_url, _no_work)
    site = make_site(app, Site(place, known, tls_certificate, tls_key))
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        port = site.start_http_server()
    except OSError as error:
        raise CommandError(
            f"cannot listen on {place.host} port {place.port}: {error.strerror}", Exit.UNAVAILABLE
        ) from error
    scheme = "http" if tls_certificate is None else "https"
    host = f"[{place.host}]" if ":" in place.host else place.host
    output.show(f"Flower at {scheme}://{host}:{port}.{told} Ctrl-C stops.")
    try:
        site.start()
    except KeyboardInterrupt:
        output.show("Stopped.")
    finally:
        site.stop()


def _no_work() -> Workshop:
    raise AssertionError("Flower runs no task")
