"""`metrics` and `flower`: pages that show what workers do."""

from __future__ import annotations

import secrets
import signal
from typing import Annotated

import typer
from prometheus_client import generate_latest

from afterturn.broker import check_transport
from afterturn.commands.shared import CredentialsFile, TlsCertificate, TlsKey
from afterturn.credentials import Credentials, Place, check_access
from afterturn.exits import CommandError, Exit
from afterturn.invocation import Invocation
from afterturn.metrics.collector import deployment_registry
from afterturn.metrics.server import MetricsServer, tls_context
from afterturn.render.console import Output
from afterturn.telemetry import LogLevel, log_to_stderr
from tasks.application import make_app
from workers.runtime.context import WorkerContext

METRICS_PLACE = "127.0.0.1:9464"
FLOWER_PLACE = "127.0.0.1:5555"
OPERATOR = "afterturn"


def metrics(
    context: typer.Context,
    *,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where to answer.")
    ] = METRICS_PLACE,
    credentials: CredentialsFile = None,
    tls_certificate: TlsCertificate = None,
    tls_key: TlsKey = None,
    once: Annotated[
        bool, typer.Option("--once", help="Print the metrics of now, and end.")
    ] = False,
) -> None:
    """Serve metrics for Prometheus at /metrics until Ctrl-C or SIGTERM.

    They are read from the database and the broker at each scrape. One exporter is enough for a
    deployment. Without --credentials it answers on this host only.
    """
    output = Output()
    place = Place.read(listen, "--listen")
    known = None if credentials is None else Credentials.read(credentials)
    tls = tls_context(tls_certificate, tls_key)
    source = Invocation.of(context).source()
    with Invocation.of(context).database() as (database, _):
        registry = deployment_registry(database, source.current)
        if once:
            output.text(generate_latest(registry).decode())
            return
        server = MetricsServer(registry, place, known, tls)
        former = signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            server.start()
            output.show(f"Metrics at {server.url}. Ctrl-C stops.")
            server.wait()
        except KeyboardInterrupt:
            output.show("Stopped.")
        finally:
            server.close()
            signal.signal(signal.SIGTERM, former)


def flower(
    context: typer.Context,
    *,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where to answer.")
    ] = FLOWER_PLACE,
    credentials: CredentialsFile = None,
    tls_certificate: TlsCertificate = None,
    tls_key: TlsKey = None,
    log_level: Annotated[
        LogLevel, typer.Option(help="What is logged to standard error.")
    ] = LogLevel.WARNING,
) -> None:
    """Serve Flower: a page of queues, workers (started with --events) and tasks.

    Read-only, with a password: without --credentials one is made for this run and printed, and
    only this host may connect. Other settings of Flower come from FLOWER_… in the environment.
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
    # Flower's own settings may name people.
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
    access = ""
    if known is None and not asked_elsewhere:
        password = secrets.token_urlsafe(12)
        known = Credentials((f"{OPERATOR}:{password}",))
        access = f" Name {OPERATOR}, password {password}."
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
    output.show(f"Flower at {scheme}://{host}:{port}.{access} Ctrl-C stops.")
    try:
        site.start()
    except KeyboardInterrupt:
        output.show("Stopped.")
    finally:
        site.stop()


def _no_work() -> WorkerContext:
    raise AssertionError("Flower runs no task")
