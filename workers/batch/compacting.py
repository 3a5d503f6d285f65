"""End a pass whose summary was accepted (ENGINE.md §§6.7, 10)."""

from __future__ import annotations

from sqlalchemy import Connection

from storage import guards
from storage.answers import StoredAnswer
from storage.guards import GuardName
from storage.sessions import SessionRecord
from storage.signals import SignalKind
from storage.summaries import SummaryKind
from workers.batch import ladder
from workers.batch.outcomes import Compacted, NotSmaller
from workers.batch.plan import BatchPlan
from workers.batch.substitution import Substitute, smallest, substitute
from workers.batch.telling import STUCK_SENTENCE, figures
from workers.batch.trial import Trial
from workers.batch.wishes import Wishes
from workers.holds import MOST_POOR_PASSES
from workers.tokens import estimate_text
from workers.triggers import Trigger

OF_THE_OLD_VIEW = (
    GuardName.UNDONE,
    GuardName.NOTHING_TO_COMPACT,
    GuardName.NOT_SMALLER,
    GuardName.MICRO_FAILURES,
    GuardName.DEFRAG_MARK,
    GuardName.PRUNE_MARK,
)
"""Guards about rows and markers that a new marker takes out of the view."""

OF_FAILURES = (GuardName.COOLDOWN, GuardName.BATCH_FAILURES, GuardName.ENDPOINT_FAILURES)
"""Guards that a good summary ends."""


def compact(trial: Trial, plan: BatchPlan, answer: StoredAnswer) -> Compacted | NotSmaller:
    """Archive the middle and put the summary in its place; refuse what is not smaller.

    Raises `StaleError` and `FenceLost` having written nothing.
    """
    new = smallest(SummaryKind.BATCH, answer.text, plan.verbatim, answer.model, plan.span.tokens)
    if new.tokens >= plan.span.tokens:
        return _refuse(trial, plan, new)
    with trial.closing(revision=plan.session.revision) as (connection, before):
        summary_id, after = substitute(
            connection,
            trial.shop.database,
            before,
            plan.span,
            new,
            cursor_before=plan.cursor_before,
        )
        # What the first layer has freed is a part of what the pass saves.
        poor = ladder.is_poor(before.live_tokens + trial.freed, after.live_tokens)
        ended = () if poor else (GuardName.POOR_PASSES,)
        guards.clear(connection, before.key, *OF_THE_OLD_VIEW, *OF_FAILURES, *ended)
        if poor:
            _count_poor(trial, connection, before, after)
        trial.record(
            connection,
            "compacted",
            before,
            after,
            cursor=plan.span.place + 1,
            absorbed_tokens=plan.span.tokens,
            summary_tokens=estimate_text(answer.text),
            summary_id=summary_id,
            model=answer.model,
        )
        trial.telling.tell(connection, SignalKind.FINISHED, **figures(before, after))
        trial.finish(connection, healed=True)
    trial.shop.reach("after-commit")
    return Compacted(len(plan.span.messages), before.live_tokens, after.live_tokens)


def _refuse(trial: Trial, plan: BatchPlan, new: Substitute) -> NotSmaller:
    with trial.closing(revision=plan.session.revision) as (connection, before):
        guards.put(
            connection,
            trial.shop.database,
            before.key,
            GuardName.NOT_SMALLER,
            count=before.live_tokens,
            subject=before.revision,
        )
        guards.clear(connection, before.key, *OF_FAILURES)
        trial.record(connection, "not_smaller", before, before, model=new.model)
        trial.finish(connection)
    trial.shop.reach("after-commit")
    return NotSmaller(new.tokens)


def _count_poor(
    trial: Trial, connection: Connection, before: SessionRecord, after: SessionRecord
) -> None:
    """Count a pass that hardly saved anything, and tell whom it concerns."""
    if Wishes.of(trial.claim.options).whole and trial.is_over(after):
        trial.telling.tell(
            connection, SignalKind.STUCK, sentence=STUCK_SENTENCE, **figures(before, after)
        )
    if trial.claim.trigger == Trigger.MANUAL:
        return
    held = guards.read_all(connection, trial.shop.database, before.key)
    former = held.get(GuardName.POOR_PASSES)
    count = (former.count if former else 0) + 1
    guards.put(
        connection,
        trial.shop.database,
        before.key,
        GuardName.POOR_PASSES,
        count=count,
        hold_ms=ladder.LOCK_MS if count >= MOST_POOR_PASSES else None,
    )
