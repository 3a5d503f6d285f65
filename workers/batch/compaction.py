"""Commit a batch summary: one marker replaces the rows that leave the view."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from storage import guards
from storage.answers import StoredAnswer
from storage.conversations import cursors, messages, sessions, summaries
from storage.conversations.cursors import CursorName
from storage.conversations.rows import Kind
from storage.conversations.sessions import SessionRecord
from storage.conversations.summaries import SummaryKind, SummaryStatus
from storage.guards import GuardName
from storage.outcomes import Outcome
from storage.signals import SignalKind
from workers.batch.placeholders import REPLACE_AFTER_MS, is_placeholder_shown
from workers.batch.plan import BatchPlan
from workers.batch.span import CompactionOptions, Span
from workers.conversation.markers import frame_tokens
from workers.conversation.tokens import estimate_text
from workers.policy.calibration import Calibration
from workers.policy.failures import LOCK_MS, STUCK_SENTENCE, is_poor
from workers.policy.guards import MOST_POOR_PASSES
from workers.policy.threshold import NoUsableWindowError, session_threshold
from workers.policy.triggers import BATCH_QUEUE, RULES, Trigger
from workers.runtime.commit import (
    Change,
    ContinueAs,
    Finish,
    StaleError,
    Transaction,
    view_facts,
)
from workers.runtime.pass_context import PassResult
from workers.settings.compression import CompressionSettings
from workers.summariser.structured_prompts import BATCH_TEMPLATE_VERSION

LOCAL = "local"
"""Name of the model, in records, for text that was written without one."""

OF_THE_OLD_VIEW = (
    GuardName.UNDONE,
    GuardName.NOTHING_TO_COMPACT,
    GuardName.NOT_SMALLER,
    GuardName.MICRO_FAILURES,
    GuardName.DEFRAG_MARK,
    GuardName.PRUNE_MARK,
)
"""Guards about rows and markers that a new marker replaces."""

OF_FAILURES = (GuardName.COOLDOWN, GuardName.BATCH_FAILURES, GuardName.ENDPOINT_FAILURES)
"""Guards that a good summary ends."""


def compact(tx: Transaction, plan: BatchPlan, answer: StoredAnswer, freed: int) -> Change:
    """Archive the middle and put the summary in its place; refuse a summary that is not smaller.

    `freed` are the tokens that pruning freed before: they count as saved by the pass.
    """
    before = tx.before
    new = smallest(SummaryKind.BATCH, answer.text, plan.verbatim, answer.model, plan.span.tokens)
    if new.tokens >= plan.span.tokens:
        return _refuse(tx, new, plan.span.tokens)
    summary_id, after = substitute(tx, plan.span, new, cursor_before=plan.cursor_before)
    poor = is_poor(before.live_tokens + freed, after.live_tokens)
    ended = () if poor else (GuardName.POOR_PASSES,)
    guards.clear(tx.connection, tx.key, *OF_THE_OLD_VIEW, *OF_FAILURES, *ended)
    facts = view_facts(before, after)
    signals: list[tuple[SignalKind, Mapping[str, Any]]] = [(SignalKind.FINISHED, facts)]
    if poor:
        _count_poor_pass(tx)
        whole = CompactionOptions.of(tx.run.claim.options).whole
        if whole and is_over(after, tx.run.settings):
            signals.insert(0, (SignalKind.STUCK, {"sentence": STUCK_SENTENCE, **facts}))
    return Change(
        PassResult.of_change(Outcome.COMPACTED, before, after, rows=len(plan.span.messages)),
        Finish(),  # The span includes every marker, so no placeholder is left to replace.
        after,
        {
            "cursor": plan.span.place + 1,
            "absorbed_tokens": plan.span.tokens,
            "summary_tokens": estimate_text(answer.text),
            "summary_id": summary_id,
            "model": answer.model,
        },
        tuple(signals),
    )


def end_of_job(tx: Transaction) -> Finish | ContinueAs:
    """Return how a batch job ends: while a placeholder is shown, it continues as the job that
    replaces it."""
    if not is_placeholder_shown(tx.connection, tx.key):
        return Finish()
    priority = RULES[Trigger.REPLACE_PLACEHOLDER].priority
    return ContinueAs(BATCH_QUEUE, Trigger.REPLACE_PLACEHOLDER, priority, REPLACE_AFTER_MS)


def is_over(session: SessionRecord, settings: CompressionSettings) -> bool:
    """Return whether the session's view reaches its threshold; True if that is unknown."""
    try:
        threshold = session_threshold(session, settings).tokens
    except NoUsableWindowError:
        return True
    return Calibration.of(session.calibration).estimate(session.live_tokens) >= threshold


@dataclass(frozen=True, slots=True)
class Substitute:
    """The text that a marker shows, and the model that wrote it."""

    kind: SummaryKind
    text: str
    verbatim: str
    model: str
    tokens: int = field(init=False)
    """Size of the marker in the view, its frame included."""

    def __post_init__(self) -> None:
        shown = "\n\n".join(filter(None, (self.text, self.verbatim)))
        object.__setattr__(self, "tokens", estimate_text(shown) + frame_tokens())


def smallest(
    kind: SummaryKind, text: str, verbatim: str, model: str, replaced_tokens: int
) -> Substitute:
    """Return `text` with its verbatim part, or without it if the two are not smaller than what they
    replace."""
    whole = Substitute(kind, text, verbatim, model)
    return whole if whole.tokens < replaced_tokens else Substitute(kind, text, "", model)


def substitute(
    tx: Transaction, span: Span, new: Substitute, *, cursor_before: int
) -> tuple[int, SessionRecord]:
    """Archive a span and insert a marker that shows `new` in its place. Everything before the
    marker counts as absorbed.

    Returns the summary's id and the session afterwards. Raises `StaleError` if other rows are live
    than planned.
    """
    connection, database, key = tx.connection, tx.database, tx.key
    shown = [row.summary_id for row in span.markers if row.summary_id is not None]
    replaced = [summaries.fetch(connection, summary_id) for summary_id in shown]
    summary_id = summaries.insert_summary(
        connection,
        database,
        key,
        kind=new.kind,
        text=new.text,
        verbatim=new.verbatim,
        tokens=new.tokens,
        first_position=min([span.first_position, *(one.first_position for one in replaced)]),
        last_position=span.place,
        replaces=replaced[0].id if replaced else None,
        cursor_before=cursor_before,
        template=BATCH_TEMPLATE_VERSION,
        model=new.model,
    )
    summaries.set_status(connection, shown, SummaryStatus.SUPERSEDED)
    archived = messages.archive_between(
        connection,
        key,
        first=span.messages[0].position,
        last=span.messages[-1].position,
        kept=span.kept,
        summary_id=summary_id,
    )
    markers = [row.id for row in span.markers]
    if archived != len(span.messages) or messages.archive(
        connection, markers, summary_id=summary_id
    ) != len(markers):
        raise StaleError
    messages.insert_marker(
        connection,
        database,
        key,
        kind=Kind.BATCH,
        position=span.place,
        tokens=new.tokens,
        summary_id=summary_id,
    )
    cursors.move(connection, key, CursorName.MICRO, span.place + 1)
    change = new.tokens - span.tokens
    after = sessions.count_change(
        connection,
        key,
        messages=1 - archived - len(markers),
        tokens=change,
        passes=1,
        saved=-change,
    )
    return summary_id, after


def _refuse(tx: Transaction, new: Substitute, replaced_tokens: int) -> Change:
    guards.put(
        tx.connection,
        tx.database,
        tx.key,
        GuardName.NOT_SMALLER,
        count=tx.before.live_tokens,
        subject=tx.before.revision,
    )
    guards.clear(tx.connection, tx.key, *OF_FAILURES)
    reason = f"{new.tokens:,} tokens in the place of {replaced_tokens:,}"
    result = PassResult(Outcome.NOT_SMALLER, reason=reason)
    return Change(result, end_of_job(tx), attempt={"model": new.model})


def _count_poor_pass(tx: Transaction) -> None:
    """Count an automatic pass that hardly saved anything; several in a row lock such passes."""
    if tx.run.claim.trigger == Trigger.MANUAL:
        return
    former = guards.read_all(tx.connection, tx.database, tx.key).get(GuardName.POOR_PASSES)
    count = (former.count if former else 0) + 1
    guards.put(
        tx.connection,
        tx.database,
        tx.key,
        GuardName.POOR_PASSES,
        count=count,
        hold_ms=LOCK_MS if count >= MOST_POOR_PASSES else None,
    )
