"""`afterturn up`."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.table import Table

from afterturn import installation
from afterturn.broker import check_transport
from afterturn.commands.options import LogFormatOption
from afterturn.console import Output
from afterturn.exits import CommandError, Exit
from afterturn.invocation import Invocation
from afterturn.summarisers import describe_summarisers
from afterturn.telemetry import LogFormat, LogLevel, log_to_stderr, traces
from afterturn.words import facts
from schedules.schedule import Clock
from tasks.embedded import EmbeddedWorker
from workers.settings import ScheduleSettings, Settings
from workers.urls import masked_url


def up(
    context: typer.Context,
    log_level: Annotated[
        LogLevel, typer.Option(help="What is logged to standard error.")
    ] = LogLevel.WARNING,
    log_format: LogFormatOption = LogFormat.TEXT,
) -> None:
    """Run workers, reconciler and schedule in this process until Ctrl-C or SIGTERM.

    Needs no server: gateways in other processes need not ring, the jobs table is looked at all
    the time. With a broker configured, its messages are taken too.
    """
    output = Output()
    source = Invocation.of(context).source()
    settings = source.current()
    if settings.broker_url is not None:
        check_transport(settings.broker_url)
    output.show(_description(settings))
    if (warning := installation.warning()) is not None:
        output.notice(f"Warning: {warning}", style="yellow")
    log_to_stderr(log_level, log_format)
    with Invocation.of(context).database(create=True):
        pass  # A database that cannot be used ends the program before it says that it is ready.
    with _sigterm_as_ctrl_c(), traces(os.environ, service="afterturn"):
        worker = EmbeddedWorker(source)
        try:
            _work_until_told(worker, settings.schedule, output)
        except KeyboardInterrupt:
            output.notice("Ended at once. What was running is taken up again at the next start.")
            # Threads that wait for a model would hold up a normal end.
            os._exit(Exit.INTERRUPTED)
    output.show("Stopped.")


def _work_until_told(worker: EmbeddedWorker, schedule: ScheduleSettings, output: Output) -> None:
    clock = Clock(worker.app, schedule)
    try:
        worker.start()
        clock.start()
        output.show("Ready. Ctrl-C stops.")
        worker.wait()
        raise CommandError("the worker has ended by itself; its log says why", Exit.FAULT)
    except TimeoutError as error:
        raise CommandError(str(error), Exit.UNAVAILABLE) from error
    except KeyboardInterrupt:
        output.notice("Stopping; running model calls are waited for, Ctrl-C again ends them.")
    finally:
        clock.stop()
        worker.stop()


def _description(settings: Settings) -> Table:
    broker = (
        masked_url(settings.broker_url) if settings.broker_url else "none, the jobs table is polled"
    )
    return facts(
        [
            ("database", masked_url(settings.database_url)),
            ("broker", broker),
            ("summariser", describe_summarisers(settings, os.environ)),
            ("at once", f"{settings.worker.concurrency} jobs"),
        ]
    )


@contextmanager
def _sigterm_as_ctrl_c() -> Iterator[None]:
    former = signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)
