"""Replace a placeholder by a real summary of the same messages."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection

from storage import guards
from storage.answers import StoredAnswer
from storage.conversations import messages, sessions, summaries
from storage.conversations.rows import Kind
from storage.conversations.sessions import SessionRecord
from storage.conversations.summaries import SummaryKind, SummaryRecord, SummaryStatus
from storage.outcomes import Outcome
from storage.signals import SignalKind
from workers.batch.compaction import OF_FAILURES, Substitute, end_of_job
from workers.batch.plan import Material, opened, summary_budget
from workers.conversation.tokens import estimate_text
from workers.policy.threshold import session_window
from workers.runtime.commit import Change, StaleError, Transaction, view_facts
from workers.runtime.pass_context import PassResult
from workers.summariser.structured_prompts import BATCH_TEMPLATE_VERSION


@dataclass(frozen=True, slots=True)
class ReplacementPlan:
    """The placeholder that is shown, and the original messages that it covers."""

    session: SessionRecord
    placeholder: SummaryRecord
    given: Material
    target_tokens: int


def plan_replacement(connection: Connection, key: int) -> ReplacementPlan | None:
    """Plan the replacement of the placeholder that is shown; return None if there is none."""
    markers = messages.read_markers(connection, key)
    shown = next((marker for marker in markers if marker.kind is Kind.BATCH), None)
    if shown is None or shown.summary_id is None:
        return None
    placeholder = summaries.fetch(connection, shown.summary_id)
    if placeholder.kind is not SummaryKind.PLACEHOLDER:
        return None
    session = sessions.fetch(connection, key)
    given = opened(connection, key, [shown])
    return ReplacementPlan(
        session=session,
        placeholder=placeholder,
        given=given,
        target_tokens=summary_budget(given.tokens, session_window(session)),
    )


def replace_placeholder(tx: Transaction, plan: ReplacementPlan, answer: StoredAnswer) -> Change:
    """Let the marker show the real summary. No message moves; the view may grow."""
    connection, key, old = tx.connection, tx.key, plan.placeholder
    new = Substitute(SummaryKind.PLACEHOLDER_REPLACED, answer.text, old.verbatim, answer.model)
    summary_id = summaries.insert_summary(
        connection,
        tx.database,
        key,
        kind=new.kind,
        text=new.text,
        verbatim=new.verbatim,
        tokens=new.tokens,
        first_position=old.first_position,
        last_position=old.last_position,
        replaces=old.id,
        cursor_before=old.cursor_before,
        template=BATCH_TEMPLATE_VERSION,
        model=new.model,
    )
    summaries.set_status(connection, [old.id], SummaryStatus.SUPERSEDED)
    changed = messages.change_marker(
        connection, key, shows=old.id, summary_id=summary_id, tokens=new.tokens
    )
    if changed != 1:
        raise StaleError
    guards.clear(connection, key, *OF_FAILURES)
    delta = new.tokens - old.tokens
    after = sessions.count_change(connection, key, messages=0, tokens=delta, passes=1, saved=-delta)
    rows = len(plan.given.rows)
    return Change(
        PassResult.of_change(Outcome.PLACEHOLDER_REPLACED, tx.before, after, rows=rows),
        end_of_job(tx),
        after,
        {
            "absorbed_tokens": plan.given.tokens,
            "summary_tokens": estimate_text(answer.text),
            "summary_id": summary_id,
            "model": answer.model,
        },
        ((SignalKind.PLACEHOLDER_REPLACED, view_facts(tx.before, after)),),
    )
