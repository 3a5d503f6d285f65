"""`afterturn prune`."""

from __future__ import annotations

import os
from threading import Event
from typing import Annotated, Any

import typer

from afterturn.commands.options import AsJson, SessionId
from afterturn.compaction.acting import open_shop
from afterturn.consent import agreed, check_consent
from afterturn.console import Output
from afterturn.exits import CommandError, Exit
from afterturn.invocation import Invocation
from afterturn.lookup import find_session
from afterturn.pruning_tables import plan_document, show_plan
from afterturn.words import count, number
from storage import jobs
from storage.engine import Database
from storage.jobs import DueJob, JobKind
from storage.outcomes import Outcome
from workers.pruning.plan import NothingToPrune, PrunePlan, plan_prune
from workers.pruning.triggers import PRUNE_QUEUE, STRENGTH, PruneTrigger
from workers.runtime.jobs import Crashed, NotClaimed, Worked, work
from workers.triggers import RULES, Trigger


def prune(
    context: typer.Context,
    session: SessionId,
    *,
    preview: Annotated[
        bool, typer.Option("--preview", help="Show what would be done, and change nothing.")
    ] = False,
    undo: Annotated[
        bool, typer.Option("--undo", help="Show everything in full again instead.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before it acts.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show old tool output of a session in one line each, without a model.

    Shows first what would change and what that saves; then asks. Head, tail, messages of users
    and tools that the configuration exempts stay as they are.

    Nothing is deleted: `afterturn output HANDLE` prints an original, --undo shows all of them.
    """
    output = Output(as_json=as_json)
    if undo:
        _show_in_full(context, output, session)
        return
    check_consent("prune", preview=preview, yes=yes, as_json=as_json)
    invocation, source = Invocation.of(context), Invocation.of(context).source()
    with invocation.database() as (database, settings):
        with database.read() as connection:
            record = find_session(connection, owner=invocation.owner, session_id=session)
            seen = plan_prune(
                connection, record.key, settings.compression, RULES[Trigger.MANUAL], least=1
            )
        if not as_json:
            _show(output, seen, settings.compression.proactive_prune_min_reclaim_tokens)
        if isinstance(seen, NothingToPrune) or preview:
            _document(output, session, seen)
            return
        if not yes and not agreed(output, "Shorten it now?"):
            return
        due = _make_due(database, record.key)
        with open_shop(database, source, os.environ, Event()) as shop:
            done = work(shop, due.id)
    _conclude(output, session, seen, done)


def _show(output: Output, seen: PrunePlan | NothingToPrune, automatic_from: int) -> None:
    if isinstance(seen, NothingToPrune):
        output.tell(f"Nothing to shorten: {seen.reason}.")
    else:
        show_plan(output, seen, automatic_from=automatic_from)


def _make_due(database: Database, key: int) -> DueJob:
    with database.write() as connection:
        return jobs.make_due(
            connection,
            database,
            key,
            kind=JobKind.PRUNE,
            queue=PRUNE_QUEUE,
            trigger=PruneTrigger.MANUAL,
            strength=STRENGTH[PruneTrigger.MANUAL],
        )


def _conclude(
    output: Output, session: str, seen: PrunePlan, done: NotClaimed | Worked | Crashed
) -> None:
    if isinstance(done, Crashed):
        raise done.error
    if isinstance(done, NotClaimed):
        raise CommandError(
            "not now: a worker has the session, or queue prune is paused; the job is due and is "
            "worked afterwards",
            Exit.FAILED,
        )
    last = done.passes[-1]
    if last.outcome is not Outcome.PRUNED:
        raise CommandError("nothing was changed: the session was changed meanwhile", Exit.FAILED)
    if output.as_json:
        result = {
            "messages": last.rows,
            "tokens_before": last.tokens_before,
            "tokens_after": last.tokens_after,
        }
        _document(output, session, seen, result=result)
        return
    output.tell(
        f"Shortened: {count(last.rows, 'message')}, {number(last.tokens_before)} → "
        f"{number(last.tokens_after)} tokens.",
        f"To see it: `afterturn context {session}`. To take it back: `afterturn prune {session} "
        "--undo`.",
    )


def _show_in_full(context: typer.Context, output: Output, session: str) -> None:
    with Invocation.of(context).gateway() as gateway:
        back = gateway.unprune(session)
    if output.as_json:
        output.document(
            {"session": session, "restored": {"messages": back.messages, "tokens": back.tokens}}
        )
    elif not back.messages:
        output.tell("Nothing of the view is shown short.")
    else:
        output.tell(
            f"{count(back.messages, 'message')} shown in full again: {number(back.tokens)} tokens "
            "came back.",
            "Automatic passes of this session wait for its next turn.",
        )


def _document(output: Output, session: str, seen: PrunePlan | NothingToPrune, **more: Any) -> None:
    if not output.as_json:
        return
    output.document(
        {
            "session": session,
            "preview": None if isinstance(seen, NothingToPrune) else plan_document(seen),
            "nothing_to_prune": seen.reason if isinstance(seen, NothingToPrune) else None,
            "result": None,
            **more,
        }
    )
