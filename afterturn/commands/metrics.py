"""`afterturn metrics`."""

from __future__ import annotations

import signal
from typing import Annotated

import typer
from prometheus_client import generate_latest

from afterturn.commands.options import CredentialsFile, TlsCertificate, TlsKey
from afterturn.console import Output
from afterturn.credentials import Credentials, Place
from afterturn.invocation import Invocation
from afterturn.metrics.collector import deployment_registry
from afterturn.metrics.server import MetricsServer, tls_context

DEFAULT_PLACE = "127.0.0.1:9464"


def metrics(
    context: typer.Context,
    *,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where to answer.")
    ] = DEFAULT_PLACE,
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
