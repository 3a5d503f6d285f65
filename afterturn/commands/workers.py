"""`up` and `worker`: run workers, alone in this process or on a broker."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated
from uuid import uuid4

import typer
from celery.signals import setup_logging, worker_shutting_down

from afterturn import installation
from afterturn.broker import check_transport
from afterturn.commands.shared import CredentialsFile, LogFormatOption, check_names
from afterturn.credentials import Credentials, Place, check_access
from afterturn.exits import CommandError, Exit
from afterturn.invocation import Invocation
from afterturn.metrics.server import MetricsServer
from afterturn.metrics.worker import WorkerMetrics
from afterturn.render.console import Output
from afterturn.render.fields import facts
from afterturn.render.terms import describe_summarisers
from afterturn.telemetry import LogFormat, LogLevel, log_to_stderr, traces
from schedules.schedule import Clock
from tasks.application import ProcessContext, make_app
from tasks.embedded import EmbeddedWorker
from tasks.lifecycle import StartScan, StopFlag
from tasks.names import QUEUES
from workers.settings import ScheduleSettings, Settings
from workers.settings.urls import masked_url


def up(
    context: typer.Context,
    log_level: Annotated[
        LogLevel, typer.Option(help="What is logged to standard error.")
    ] = LogLevel.WARNING,
    log_format: LogFormatOption = LogFormat.TEXT,
) -> None:
    """Run workers, reconciler and schedule in this process until Ctrl-C or SIGTERM.

    Needs no server: it polls the jobs table, so that gateways in other processes need no broker.
    With a broker configured, its messages are taken too.
    """
    output = Output()
    source = Invocation.of(context).source()
    settings = source.current()
    if settings.broker_url is not None:
        check_transport(settings.broker_url)
    _begin(output, settings, concurrency=settings.worker.concurrency)
    log_to_stderr(log_level, log_format)
    with Invocation.of(context).database(create=True):
        pass  # A database that cannot be used ends the program before it is ready.
    with _sigterm_as_ctrl_c(), traces(os.environ, service="afterturn"):
        worker = EmbeddedWorker(source)
        try:
            _work_until_stopped(worker, settings.schedule, output)
        except KeyboardInterrupt:
            output.notice("Stopped at once. What was running is done again at the next start.")
            # Threads that wait for a model would delay a normal exit.
            os._exit(Exit.INTERRUPTED)
    output.show("Stopped.")


def _work_until_stopped(worker: EmbeddedWorker, schedule: ScheduleSettings, output: Output) -> None:
    clock = Clock(worker.app, schedule)
    try:
        worker.start()
        clock.start()
        output.show("Ready. Ctrl-C stops.")
        worker.wait()
        raise CommandError("the worker ended by itself; see its log", Exit.FAULT)
    except TimeoutError as error:
        raise CommandError(str(error), Exit.UNAVAILABLE) from error
    except KeyboardInterrupt:
        output.notice("Stopping; running model calls are waited for, Ctrl-C again ends them.")
    finally:
        clock.stop()
        worker.stop()


@contextmanager
def _sigterm_as_ctrl_c() -> Iterator[None]:
    former = signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)


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

    The first signal lets model calls finish within worker.stop_seconds and returns other jobs.
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
    _begin(output, settings, concurrency=concurrency, queues=names)
    log_to_stderr(log_level, log_format)
    # Celery sets up no logging of its own if there is a receiver of this signal.
    setup_logging.connect(_logging_is_set_up)
    with Invocation.of(context).database(create=True):
        pass  # A database that cannot be used ends the program before it takes a job.
    process = ProcessContext(source, StopFlag())
    app = make_app(settings.broker_url, process)
    start_scan = StartScan(app, process)
    celery_worker = app.Worker(
        hostname=f"{name or _own_name()}@",
        pool="threads",
        concurrency=concurrency,
        queues=names,
        task_events=events,
        loglevel=log_level.value.upper(),
        quiet=True,
        # Workers need nothing from each other, and start-up would wait a second for it.
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=not events,
    )
    shutdowns: list[str] = []

    def record(how: str, **_facts: object) -> None:
        shutdowns.append(how)

    worker_shutting_down.connect(record, weak=False)
    try:
        with _own_metrics(served, known), traces(os.environ, service="afterturn-worker"):
            celery_worker.start()
    finally:
        worker_shutting_down.disconnect(record)
        start_scan.close()
        process.close()
    raise typer.Exit(_exit_code(shutdowns, celery_worker.exitcode))


def read_queues(text: str) -> list[str]:
    """Return the queues of a comma-separated list, each once. Raises `CommandError`."""
    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise CommandError(f"--queues names none of {', '.join(QUEUES)}", Exit.USAGE)
    check_names("queue", names, QUEUES)
    return names


def _begin(
    output: Output, settings: Settings, *, concurrency: int, queues: Sequence[str] = ()
) -> None:
    """Print what a worker works with."""
    broker = settings.broker_url
    lines = [
        ("database", masked_url(settings.database_url)),
        ("broker", masked_url(broker) if broker else "none, the jobs table is polled"),
        ("summariser", describe_summarisers(settings, os.environ)),
        *([("queues", ", ".join(queues))] if queues else []),
        ("at once", f"{concurrency} jobs"),
    ]
    output.show(facts(lines))
    if (warning := installation.warning()) is not None:
        output.notice(f"Warning: {warning}", style="yellow")


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


def _exit_code(shutdowns: Sequence[str], code: int | None) -> int:
    """Return the exit code: Celery counts Ctrl-C as a failure, even if every job was finished."""
    match shutdowns:
        case [*_, "Warm"]:
            return Exit.OK
        case [*_, "Cold"]:
            return Exit.INTERRUPTED
        case _:
            return code or Exit.OK


def _own_name() -> str:
    """Return a name that no other worker has: Celery takes two of one name for the same."""
    return f"afterturn-{uuid4().hex[:8]}"


def _logging_is_set_up(**_facts: object) -> None:
    """Receive Celery's request to set up logging; `log_to_stderr` has done it."""
