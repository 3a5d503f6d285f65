"""End a try that got no summary: wait, fold, reset (ENGINE.md §10)."""

from __future__ import annotations

from sqlalchemy import Connection

from storage import guards, jobs
from storage.guards import GuardName
from storage.jobs import Ended
from storage.sessions import SessionRecord
from storage.signals import SignalKind
from storage.summaries import SummaryKind
from workers.batch import ladder
from workers.batch.compacting import OF_THE_OLD_VIEW
from workers.batch.material import Material
from workers.batch.outcomes import Folded, NotSmaller
from workers.batch.plan import BatchPlan
from workers.batch.substitution import smallest, substitute
from workers.batch.telling import figures
from workers.batch.trial import LOCAL, Trial
from workers.calibration import Calibration
from workers.limits import usable_window
from workers.micro.outcomes import Failed
from workers.summariser.contract import ErrorClass, SummariserError
from workers.summariser.extractive.placeholder import placeholder
from workers.tokens import estimate_text

LEAST_ROOM = 1_000
"""Characters that a request may always hold: it must hold something, however often it was too
long."""


def wait(trial: Trial, error: SummariserError, again: ladder.AskAgain) -> Failed:
    """Give the job back until its next attempt. One that was not spent leaves no record."""
    with trial.closing() as (connection, session):
        if again.counts:
            trial.record_failure(connection, session, error)
            _learn_room(trial, connection, session.key, error)
        jobs.release(
            connection,
            trial.shop.database,
            trial.claim,
            delay_ms=again.delay_ms,
            reason=error.error_class.value,
            # `tries` counts it, so the count of claims stays free for crashes.
            ended=Ended.FORESEEN,
            tries=trial.claim.tries + again.counts,
        )
    trial.shop.reach("after-commit")
    return _failed(trial, error, again.delay_ms)


def give_up(trial: Trial, error: SummariserError) -> Failed:
    """Record the last attempt and let automatic passes rest. The job is still held: whoever
    claims it after a crash sees that no attempt is left."""
    database = trial.shop.database
    hold_ms = ladder.cooldown_ms(trial.rules, trial.settings)
    with trial.closing() as (connection, session):
        trial.record_failure(connection, session, error)
        _learn_room(trial, connection, session.key, error)
        trial.telling.tell(connection, SignalKind.FAILED, error=error.error_class.value)
        if hold_ms:
            guards.put(
                connection,
                database,
                session.key,
                GuardName.COOLDOWN,
                subject=trial.shop.summariser.fingerprint,
                detail=error.error_class.value,
                hold_ms=hold_ms,
            )
            held = guards.read_all(connection, database, session.key)[GuardName.COOLDOWN]
            trial.telling.tell(
                connection,
                SignalKind.COOLDOWN,
                error=error.error_class.value,
                until=held.until_at,
            )
        jobs.note_tries(connection, trial.claim, trial.settings.summary_attempts)
    trial.shop.reach("gave-up")
    return _failed(trial, error, 0)


def fold(trial: Trial, plan: BatchPlan, given: Material) -> Folded | NotSmaller:
    """Put a placeholder in the middle's place; the job is still held.

    Raises `StaleError` and `FenceLost` having written nothing.
    """
    text = placeholder(
        given.rows,
        previous=given.previous,
        budget_tokens=plan.span.tokens // 2,
        shows_request=not plan.verbatim,
    )
    new = smallest(SummaryKind.PLACEHOLDER, text, plan.verbatim, LOCAL, plan.span.tokens)
    if new.tokens >= plan.span.tokens:
        return NotSmaller(new.tokens)
    with trial.closing(revision=plan.session.revision) as (connection, before):
        summary_id, after = substitute(
            connection,
            trial.shop.database,
            before,
            plan.span,
            new,
            cursor_before=plan.cursor_before,
        )
        guards.clear(connection, before.key, *OF_THE_OLD_VIEW)
        trial.record(
            connection,
            "placeholder",
            before,
            after,
            absorbed_tokens=plan.span.tokens,
            summary_tokens=estimate_text(text),
            summary_id=summary_id,
        )
        trial.telling.tell(connection, SignalKind.PLACEHOLDER, **figures(before, after))
    trial.shop.reach("folded")
    return Folded(len(plan.span.messages), before.live_tokens, after.live_tokens)


def conclude(trial: Trial) -> bool:
    """Count a job that failed while the window is nearly full; True where that was once too
    often, so that a reset is due and the job is still held. Else the job is finished."""
    with trial.closing() as (connection, session):
        if _exhausted(trial, connection, session):
            return True
        trial.finish(connection)
    trial.shop.reach("after-commit")
    return False


def _exhausted(trial: Trial, connection: Connection, session: SessionRecord) -> bool:
    if trial.rules.leaves_unchanged:
        return False
    estimate = Calibration.of(session.calibration).estimate(session.live_tokens)
    if estimate <= ladder.NEARLY_FULL * usable_window(session):
        guards.clear(connection, session.key, GuardName.BATCH_FAILURES)
        return False
    held = guards.read_all(connection, trial.shop.database, session.key)
    former = held.get(GuardName.BATCH_FAILURES)
    count = (former.count if former else 0) + 1
    guards.put(connection, trial.shop.database, session.key, GuardName.BATCH_FAILURES, count=count)
    if count < trial.settings.exhausted_after:
        return False
    trial.telling.tell(connection, SignalKind.EXHAUSTED, failures=count)
    return True


def _learn_room(trial: Trial, connection: Connection, key: int, error: SummariserError) -> None:
    """Never fail the same way twice: the next request is half as long as the one that was refused
    (ENGINE.md §6.8)."""
    if error.error_class is not ErrorClass.CONTEXT_OVERFLOW:
        return
    guards.put(
        connection,
        trial.shop.database,
        key,
        GuardName.INPUT_ROOM,
        count=trial.shop.summariser.fingerprint,
        subject=max(LEAST_ROOM, trial.meter.asked_chars // 2),
    )


def _failed(trial: Trial, error: SummariserError, delay_ms: int) -> Failed:
    return Failed(error.error_class, delay_ms, trial.shop.summariser.model, error.detail)
