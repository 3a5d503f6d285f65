"""`afterturn worker`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Annotated
from uuid import uuid4

import typer
from celery.signals import setup_logging, worker_shutting_down

from afterturn import installation
from afterturn.broker import check_transport
from afterturn.commands.options import CredentialsFile, LogFormatOption
from afterturn.console import Output
from afterturn.credentials import Credentials, Place, check_access
from afterturn.exits import CommandError, Exit
from afterturn.invocation import Invocation
from afterturn.metrics.server import MetricsServer
from afterturn.metrics.worker import WorkerMetrics
from afterturn.summarisers import describe_summarisers
from afterturn.telemetry import LogFormat, LogLevel, log_to_stderr, traces
from afterturn.words import facts
from tasks.application import ProcessContext, make_app
from tasks.lifecycle import StartScan, StopFlag
from tasks.names import QUEUES
from workers.urls import masked_url


def worker(
    context: typer.Context,
    *,
    queues: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            help=f"Queues to work, separated by commas, of {', '.join(QUEUES)}.",
            show_default="all",
        ),
    ] = ",".join(QUEUES),
    concurrency: Annotated[
        int | None,
        typer.Option(min=1, max=256, help="Jobs at once, in place of worker.concurrency."),
    ] = None,
    events: Annotated[
        bool,
        typer.Option("--events", "-E", help="Send events for Flower; costs throughput."),
    ] = False,
    name: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Name before @HOST. Default: one that no other worker has."
        ),
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Serve this worker's own metrics there."),
    ] = None,
    metrics_credentials: CredentialsFile = None,
    log_level: Annotated[
        LogLevel, typer.Option(help="What is logged to standard error.")
    ] = LogLevel.INFO,
    log_format: LogFormatOption = LogFormat.TEXT,
) -> None:
    """Run a Celery worker on the configured broker until Ctrl-C or SIGTERM.

    A first signal lets running model calls end within worker.stop_seconds and gives the rest back.
    """
    output = Output()
    names = read_queues(queues)
    served = None if metrics is None else Place.read(metrics, "--metrics")
    known = None if metrics_credentials is None else Credentials.read(metrics_credentials)
    if served is not None:
        check_access(served, known, "--metrics-credentials")
    source = Invocation.of(context).source()
    settings = source.current()
    if settings.broker_url is None:
        raise CommandError(
            "a worker takes its jobs from a broker and none is configured; set broker_url in the "
            "configuration or BROKER_URL in the environment, or run `afterturn up`, which needs "
            "none",
            Exit.CONFIGURATION,
        )
    check_transport(settings.broker_url)
    concurrency = concurrency or settings.worker.concurrency
    output.show(
        facts(
            [
                ("database", masked_url(settings.database_url)),
                ("broker", masked_url(settings.broker_url)),
                ("summariser", describe_summarisers(settings, os.environ)),
                ("queues", ", ".join(names)),
                ("at once", f"{concurrency} jobs"),
            ]
        )
    )
    if (warning := installation.warning()) is not None:
        output.notice(f"Warning: {warning}", style="yellow")
    log_to_stderr(log_level, log_format)
    # Celery sets up no logging of its own where somebody listens to this.
    setup_logging.connect(_logging_is_set_up)
    with Invocation.of(context).database(create=True):
        pass  # A database that cannot be used ends the program before it takes a job.
    workshop = ProcessContext(source, StopFlag())
    app = make_app(settings.broker_url, workshop)
    start_scan = StartScan(app, workshop)
    celery_worker = app.Worker(
        hostname=f"{name or _own_name()}@",
        pool="threads",
        concurrency=concurrency,
        queues=names,
        task_events=events,
        loglevel=log_level.value.upper(),
        quiet=True,
        # Nothing here uses what workers tell each other, and start-up waits a second for it.
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=not events,
    )
    endings: list[str] = []

    def note(how: str, **_facts: object) -> None:
        endings.append(how)

    worker_shutting_down.connect(note, weak=False)
    try:
        with _own_metrics(served, known), traces(os.environ, service="afterturn-worker"):
            celery_worker.start()
    finally:
        worker_shutting_down.disconnect(note)
        start_scan.close()
        workshop.close()
    raise typer.Exit(_exit_code(endings, celery_worker.exitcode))


def read_queues(text: str) -> list[str]:
    """The queues of a comma-separated list, each once. Raises `CommandError`."""
    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise CommandError(f"--queues names none of {', '.join(QUEUES)}", Exit.USAGE)
    for name in names:
        if name not in QUEUES:
            near = get_close_matches(name, QUEUES, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise CommandError(
                f"there is no queue {name!r}, known are {', '.join(QUEUES)}{hint}", Exit.USAGE
            )
    return names


@contextmanager
def _own_metrics(place: Place | None, credentials: Credentials | None) -> Iterator[None]:
    if place is None:
        yield
        return
    with WorkerMetrics() as counted:
        server = MetricsServer(counted.registry, place, credentials)
        server.start()
        try:
            yield
        finally:
            server.close()


def _exit_code(endings: Sequence[str], code: int | None) -> int:
    """Celery counts Ctrl-C as a failure, even where every job came to its end."""
    match endings:
        case [*_, "Warm"]:
            return Exit.OK
        case [*_, "Cold"]:
            return Exit.INTERRUPTED
        case _:
            return code or Exit.OK


def _own_name() -> str:
    """Celery takes two workers of one name for one and the same."""
    return f"afterturn-{uuid4().hex[:8]}"


def _logging_is_set_up(**_facts: object) -> None:
    """Receives Celery's request to set up logging; `log_to_stderr` has done it."""
