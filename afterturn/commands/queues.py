"""`afterturn queues`, `queues pause`, `queues resume` and `queues drain`."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from typing import Annotated

import typer
from sqlalchemy import Connection

from afterturn.commands.shared import AsJson, Command, Group, check_names
from afterturn.exits import CommandError, Exit
from afterturn.invocation import Invocation, person
from afterturn.render.console import Output
from afterturn.render.progress import Steps, show_progress
from afterturn.render.words import count
from afterturn.status import fetch_broker, fetch_queues, queues_document, show_queues
from storage import audit, jobs
from storage.audit import AuditAction
from storage.engine import Database
from storage.jobs import backlog, queue_states
from tasks.names import QUEUES

LOOK_SECONDS = 0.3
"""Pause between two counts. Longer than a claim takes that began before the pause was stored."""

RESUME = "`afterturn queues resume --all` resumes them."

application = typer.Typer(cls=Group, invoke_without_command=True)

Reason = Annotated[
    str, typer.Option("--reason", metavar="TEXT", help="Why they are paused, shown in the list.")
]


@application.callback()
def queues(context: typer.Context, as_json: AsJson = False) -> None:
    """Show how much waits in each queue, or pause, resume and drain queues.

    Without a command: jobs in the database by queue, and messages at the broker.
    """
    if context.invoked_subcommand is not None:
        return
    output = Output(as_json=as_json)
    with Invocation.of(context).database() as (database, settings), database.read() as connection:
        found = fetch_queues(connection, database)
    broker = None if settings.broker_url is None else fetch_broker(settings.broker_url)
    if as_json:
        output.document(queues_document(found, broker))
    else:
        show_queues(output, found, broker)


@application.command(cls=Command)
def pause(
    context: typer.Context,
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Queues to pause.")],
    *,
    reason: Reason = "",
    as_json: AsJson = False,
) -> None:
    """Begin no more jobs of these queues. Running jobs are finished, none is lost."""
    output = Output(as_json=as_json)
    chosen = _known(names, QUEUES)
    with Invocation.of(context).database() as (database, _), database.write() as connection:
        queue_states.pause(connection, database, chosen, reason=reason)
        _note(connection, database, AuditAction.QUEUE_PAUSED, chosen)
    if as_json:
        output.document({"paused": chosen})
        return
    output.write(
        f"Paused {', '.join(chosen)}. `afterturn queues resume {' '.join(chosen)}` resumes "
        f"{'it' if len(chosen) == 1 else 'them'}."
    )


@application.command(cls=Command)
def resume(
    context: typer.Context,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Queues to work again.")
    ] = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="Every paused queue.")] = False,
    as_json: AsJson = False,
) -> None:
    """Resume paused queues. Workers are notified of waiting jobs within half a minute."""
    if every == bool(names):
        raise CommandError("name either queues or --all", Exit.USAGE)
    output = Output(as_json=as_json)
    with Invocation.of(context).database() as (database, _), database.write() as connection:
        # A newer version may have paused queues that this one does not know.
        paused = [queue.name for queue in queue_states.paused(connection)]
        chosen = paused if every else _known(names or [], {*QUEUES, *paused})
        resumed = queue_states.resume(connection, chosen)
        if resumed:
            _note(connection, database, AuditAction.QUEUE_RESUMED, resumed)
    if as_json:
        output.document({"resumed": resumed})
        return
    if resumed:
        output.write(f"Resumed {', '.join(resumed)}.")
    if others := [name for name in chosen if name not in resumed]:
        output.write(f"Not paused before: {', '.join(others)}.")
    if not chosen:
        output.write("No queue was paused.")


@application.command(cls=Command)
def drain(
    context: typer.Context,
    *,
    timeout: Annotated[
        float | None,
        typer.Option(
            min=0, metavar="SECONDS", help="Wait no longer. Default: as long as it takes."
        ),
    ] = None,
    reason: Reason = "drained for maintenance",
    as_json: AsJson = False,
) -> None:
    """Pause every queue and wait until no job runs: then workers and databases may be stopped.

    Gateways go on storing turns. The queues stay paused afterwards, after Ctrl-C too.
    Exit code 1 when jobs still run after --timeout seconds.
    """
    output = Output(as_json=as_json)
    with Invocation.of(context).database() as (database, _):
        with database.write() as connection:
            queue_states.pause(connection, database, QUEUES, reason=reason)
            _note(connection, database, AuditAction.QUEUE_PAUSED, QUEUES)
        try:
            with show_progress(output.progress) as progress:
                running = wait_until_idle(database, progress, seconds=timeout)
        except KeyboardInterrupt:
            output.notice(f"Interrupted. All queues stay paused; {RESUME}")
            raise typer.Exit(Exit.INTERRUPTED) from None
        with database.read() as connection:
            waiting = backlog.measure(connection, database)
    if as_json:
        output.document(
            {"drained": running == 0, "running": running, "waiting": waiting.due + waiting.waiting}
        )
    elif running:
        output.notice(
            f"{count(running, 'job')} still running after {timeout:g} s. "
            f"All queues stay paused; {RESUME}"
        )
    else:
        output.write(
            f"Nothing runs, {count(waiting.due + waiting.waiting, 'job')} waiting. "
            f"All queues stay paused; {RESUME}"
        )
    if running:
        raise typer.Exit(Exit.FAILED)


def _note(
    connection: Connection, database: Database, action: AuditAction, names: Collection[str]
) -> None:
    facts = {"queues": list(names)}
    audit.record(connection, database, action, actor=person(), facts=facts)


def _known(names: Sequence[str], known: Collection[str]) -> list[str]:
    check_names("queue", names, known)
    return list(dict.fromkeys(names))


def wait_until_idle(
    database: Database,
    progress: Steps,
    *,
    seconds: float | None,
    sleep: Callable[[float], object] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """Wait until no job runs, at most `seconds`, and return how many still run.

    A job whose lease has ended is put back here: with every worker stopped nobody else does that.
    It takes two counts of none in a row: a worker may be claiming a job just now.
    """
    until = None if seconds is None else clock() + seconds
    shown, idle = -1, 0
    while True:
        running = _count_running(database)
        idle = 0 if running else idle + 1
        if idle == 2:
            return 0
        if running != shown and running:
            progress.step(f"{count(running, 'job')} still running")
        shown = running
        if running and until is not None and clock() >= until:
            return running
        sleep(LOOK_SECONDS)


def _count_running(database: Database) -> int:
    with database.read() as connection:
        if not (running := backlog.running(connection)):
            return 0
    with database.write() as connection:
        return running - jobs.rescue_expired(connection, database)
