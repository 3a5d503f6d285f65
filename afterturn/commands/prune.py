"""`afterturn prune`."""

from __future__ import annotations

import os
from threading import Event
from typing import Annotated, Any

import typer

from afterturn.commands.shared import AsJson, Preview, SessionId, Yes, agreed, check_consent
from afterturn.compaction.run import open_worker
from afterturn.exits import CommandError, Exit
from afterturn.invocation import Invocation, find_session
from afterturn.render.console import Output
from afterturn.render.fields import (
    NUMBER,
    SERIAL,
    Field,
    Fields,
    document,
    documents,
    for_programs,
    show_table,
)
from afterturn.render.words import count, number, share
from storage import jobs
from storage.engine import Database
from storage.jobs import DueJob, JobKind
from storage.outcomes import Outcome
from workers.policy.triggers import RULES, Trigger
from workers.prune.commit import PRIORITY, PRUNE_QUEUE, PruneTrigger
from workers.prune.plan import NothingToPrune, PrunePlan, plan_prune
from workers.prune.rules import Rule, Shortened
from workers.runtime.jobs import Crashed, NotClaimed, Worked, work

MOST_ROWS = 20

_DONE = {
    Rule.COPY: "same as a later output",
    Rule.RESULT: "output left out",
    Rule.ARGUMENTS: "long arguments left out",
    Rule.IMAGES: "images left out",
}

SHORTENED: Fields[Shortened] = (
    Field("position", "position", lambda one: one.row.position, SERIAL),
    Field("tools", "tool", lambda one: list(one.tools),
          text=lambda one: ", ".join(filter(None, one.tools)), priority=1),
    Field("rules", "what is done", lambda one: [rule.value for rule in one.rules],
          text=lambda one: ", ".join(_DONE[rule] for rule in one.rules)),
    Field("tokens_before", "tokens", lambda one: one.row.tokens, NUMBER),
    Field("tokens_after", "afterwards", lambda one: one.tokens, NUMBER),
    *for_programs("same_as"),
)  # fmt: skip

PLAN: Fields[PrunePlan] = (
    Field("tokens_before", None, lambda one: one.session.live_tokens),
    Field("tokens_after", None, lambda one: one.session.live_tokens - one.spared),
    Field("saved_tokens", None, lambda one: one.spared),
    Field("threshold_tokens", None, lambda one: one.threshold.tokens),
    Field("messages", None, lambda one: documents(SHORTENED, one.rows)),
)


def prune(
    context: typer.Context,
    session: SessionId,
    *,
    preview: Preview = False,
    undo: Annotated[
        bool, typer.Option("--undo", help="Show everything in full again instead.")
    ] = False,
    yes: Yes = False,
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
            plan = plan_prune(
                connection, record.key, settings.compression, RULES[Trigger.MANUAL], least=1
            )
        if not as_json:
            _show(output, plan, settings.compression.proactive_prune_min_reclaim_tokens)
        if isinstance(plan, NothingToPrune) or preview:
            _document(output, session, plan)
            return
        if not yes and not agreed(output, "Shorten it now?"):
            return
        due = _enqueue(database, record.key)
        with open_worker(database, source, os.environ, Event()) as worker:
            done = work(worker, due.id)
    _finish(output, session, plan, done)


def _show(output: Output, plan: PrunePlan | NothingToPrune, automatic_from: int) -> None:
    """Print what would change, what saves most first. `automatic_from` is what an automatic pass
    must free at least."""
    if isinstance(plan, NothingToPrune):
        output.write(f"Nothing to shorten: {plan.reason}.")
        return
    largest = sorted(plan.rows, key=lambda one: (-one.spared, one.row.position))
    show_table(output, SHORTENED, largest[:MOST_ROWS])
    if rest := largest[MOST_ROWS:]:
        tokens = number(sum(one.spared for one in rest))
        output.write(f"And {count(len(rest), 'message')} more, {tokens} tokens of them.")
    before, after = plan.session.live_tokens, plan.session.live_tokens - plan.spared
    output.write(
        f"Saving: {number(plan.spared)} tokens, {share(plan.spared / max(1, before))} of the view: "
        f"{number(before)} → {number(after)} tokens. The threshold is "
        f"{number(plan.threshold.tokens)}.",
    )
    if plan.spared < automatic_from:
        output.write(
            f"By itself that is too little: automatic passes free {number(automatic_from)} tokens "
            "or leave the view alone."
        )


def _enqueue(database: Database, key: int) -> DueJob:
    with database.write() as connection:
        return jobs.enqueue(
            connection,
            database,
            key,
            kind=JobKind.PRUNE,
            queue=PRUNE_QUEUE,
            trigger=PruneTrigger.MANUAL,
            priority=PRIORITY[PruneTrigger.MANUAL],
        )


def _finish(
    output: Output, session: str, plan: PrunePlan, done: NotClaimed | Worked | Crashed
) -> None:
    if isinstance(done, Crashed):
        raise done.error
    if isinstance(done, NotClaimed):
        raise CommandError(
            "not now: a worker has the session, or queue prune is paused; the job is enqueued and "
            "is worked afterwards",
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
        _document(output, session, plan, result=result)
        return
    output.write(
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
        output.write("Nothing of the view is shown short.")
    else:
        output.write(
            f"{count(back.messages, 'message')} shown in full again: {number(back.tokens)} tokens "
            "came back.",
            "Automatic passes of this session wait for its next turn.",
        )


def _document(output: Output, session: str, plan: PrunePlan | NothingToPrune, **more: Any) -> None:
    if not output.as_json:
        return
    output.document(
        {
            "session": session,
            "preview": None if isinstance(plan, NothingToPrune) else document(PLAN, plan),
            "nothing_to_prune": plan.reason if isinstance(plan, NothingToPrune) else None,
            "result": None,
            **more,
        }
    )
