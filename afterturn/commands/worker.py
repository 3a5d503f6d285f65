"""`afterturn worker`."""

from __future__ import annotations

import os
from difflib import get_close_matches
from typing import Annotated

import typer
from celery.signals import setup_logging

from afterturn import installation
from afterturn.console import Output
from afterturn.exits import CommandError, Exit
from afterturn.invocation import Invocation
from afterturn.logs import LogLevel, log_to_stderr
from afterturn.summarisers import describe_summarisers
from afterturn.words import facts
from tasks.application import ProcessWorkshop, make_app
from tasks.names import QUEUES
from tasks.stopping import StopFlag
from workers.urls import masked_url


def worker(
    context: typer.Context,
    *,
    queues: Annotated[
        str, typer.Option(metavar="NAMES", help=f"Queues to work, of {','.join(QUEUES)}.")
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
        str, typer.Option(help="Name before @HOST; two workers on one host need two.")
    ] = "celery",
    log_level: Annotated[
        LogLevel, typer.Option(help="What is logged to standard error.")
    ] = LogLevel.INFO,
) -> None:
    """Run a Celery worker on the configured broker until Ctrl-C or SIGTERM.

    A first signal lets running jobs end, their model calls included.
    """
    output = Output()
    names = read_queues(queues)
    source = Invocation.of(context).source()
    settings = source.current()
    if settings.broker_url is None:
        raise CommandError(
            "a worker takes its jobs from a broker and none is configured; set broker_url in the "
            "configuration or BROKER_URL in the environment, or run `afterturn up`, which needs "
            "none",
            Exit.CONFIGURATION,
        )
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
    log_to_stderr(log_level)
    # Celery sets up no logging of its own where somebody listens to this.
    setup_logging.connect(_logging_is_set_up)
    with Invocation.of(context).database():
        pass  # A database that cannot be used ends the program before it takes a job.
    workshop = ProcessWorkshop(source, StopFlag())
    app = make_app(settings.broker_url, workshop)
    celery_worker = app.Worker(
        hostname=f"{name}@",
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
    try:
        celery_worker.start()
    finally:
        workshop.close()
    raise typer.Exit(celery_worker.exitcode or Exit.OK)


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


def _logging_is_set_up(**_facts: object) -> None:
    """Receives Celery's request to set up logging; `log_to_stderr` has done it."""
