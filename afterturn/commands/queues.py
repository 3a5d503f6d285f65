"""`afterturn queues`, `queues pause`, `queues resume` and `queues drain`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from difflib import get_close_matches
from typing import Annotated

import typer
from sqlalchemy import Connection

from afterturn.actor import person
from afterturn.commands.options import AsJson
from afterturn.compaction.progress import show_progress
from afterturn.console import Output
from afterturn.drain import wait_until_idle
from afterturn.exits import CommandError, Exit
from afterturn.invocation import Invocation
from afterturn.plain_help import Command, Group
from afterturn.status import fetch_broker, fetch_queues, queues_document, show_queues
from afterturn.words import count
from storage import audit, backlog, queue_states
from storage.audit import AuditAction
from storage.engine import Database
from tasks.names import QUEUES

GO_ON = "`afterturn queues resume --all` lets them go on."

application = typer.Typer(cls=Group, invoke_without_command=True)

Reason = Annotated[
    str, typer.Option("--reason", metavar="TEXT", help="Why, for whoever finds them paused.")
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
    """Let no more jobs of these queues begin. Those that run come to their end, none is lost."""
    output = Output(as_json=as_json)
    chosen = _known(names, QUEUES)
    with Invocation.of(context).database() as (database, _), database.write() as connection:
        queue_states.pause(connection, database, chosen, reason=reason)
        _note(connection, database, AuditAction.QUEUE_PAUSED, chosen)
    if as_json:
        output.document({"paused": chosen})
        return
    output.tell(
        f"Paused {', '.join(chosen)}. `afterturn queues resume {' '.join(chosen)}` lets "
        f"{'it' if len(chosen) == 1 else 'them'} go on."
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
    """Let paused queues be worked again. What waits there is rung for within half a minute."""
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
        output.tell(f"Resumed {', '.join(resumed)}.")
    if others := [name for name in chosen if name not in resumed]:
        output.tell(f"Not paused before: {', '.join(others)}.")
    if not chosen:
        output.tell("No queue was paused.")


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
            output.notice(f"Interrupted. All queues stay paused; {GO_ON}")
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
            f"All queues stay paused; {GO_ON}"
        )
    else:
        output.tell(
            f"Nothing runs, {count(waiting.due + waiting.waiting, 'job')} waiting. "
            f"All queues stay paused; {GO_ON}"
        )
    if running:
        raise typer.Exit(Exit.FAILED)


def _note(
    connection: Connection, database: Database, action: AuditAction, names: Collection[str]
) -> None:
    facts = {"queues": list(names)}
    audit.record(connection, database, action, actor=person(), facts=facts)


def _known(names: Sequence[str], known: Collection[str]) -> list[str]:
    for name in names:
        if name not in known:
            near = get_close_matches(name, list(known), n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise CommandError(
                f"there is no queue {name!r}, known are {', '.join(known)}{hint}", Exit.USAGE
            )
    return list(dict.fromkeys(names))
