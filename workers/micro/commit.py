"""The writes of micro passes, each the body of one commit."""

from __future__ import annotations

from typing import Any

from storage import answers, guards
from storage.answers import StoredAnswer
from storage.conversations import cursors, messages, sessions, summaries
from storage.conversations.cursors import CursorName
from storage.conversations.rows import Kind
from storage.conversations.summaries import SummaryKind, SummaryStatus
from storage.guards import GuardName
from storage.outcomes import Outcome
from workers.conversation.markers import frame_tokens
from workers.conversation.tokens import estimate_text
from workers.micro.plan import NothingDue, PassPlan
from workers.runtime.commit import Change, Continue, Finish, Release, StaleError, Transaction
from workers.runtime.pass_context import PassResult
from workers.summariser.contract import SummariserError, Task
from workers.summariser.prompts import TEMPLATE_VERSION

MOST_FAILURES = 3
"""Bad answers for one exchange after which it is skipped."""

DEFRAG_MOST = 0.8
"""Share of its old size that a rewritten summary may have at most."""


def absorb(tx: Transaction, plan: PassPlan, answer: StoredAnswer) -> Change:
    """Archive the planned rows and put the new rolling summary in their place.

    Finishes the job if too little is left for another pass.
    """
    connection, key, old = tx.connection, tx.key, plan.marker
    tokens = estimate_text(answer.text) + frame_tokens()
    summary_id = _insert_summary(
        tx,
        plan,
        answer,
        SummaryKind.MICRO,
        tokens=tokens,
        first_position=plan.first_position,
        last_position=plan.place,
    )
    gone = (*plan.rows, *([old.id] if old else []))
    if messages.archive(connection, gone, summary_id=summary_id) != len(gone):
        raise StaleError
    messages.insert_marker(
        connection,
        tx.database,
        key,
        kind=Kind.MICRO,
        position=plan.place,
        tokens=tokens,
        summary_id=summary_id,
    )
    cursors.move(connection, key, CursorName.MICRO, plan.cursor)
    over = (GuardName.MICRO_FAILURES, GuardName.ENDPOINT_FAILURES, GuardName.UNDONE)
    # While this job runs only an undo could put one of them, and that makes the plan stale.
    if any(name in plan.guards for name in over):
        guards.clear(connection, key, *over)
    delta = tokens - plan.absorbed_tokens - (old.tokens if old else 0)
    after = sessions.count_micro_pass(
        connection,
        key,
        messages=1 - len(gone),
        tokens=delta,
        absorbed=plan.absorbed_tokens,
        cursor_from=plan.cursor_before,
        cursor_to=plan.cursor,
        checked=plan.checked_tokens,
    )
    is_last = plan.is_last and not _is_too_long(tx, answer)
    if not is_last:
        answers.drop(connection, key, plan.answer_key)
    return Change(
        PassResult.of_change(Outcome.ABSORBED, tx.before, after, rows=len(plan.rows)),
        Finish() if is_last else Continue(),
        after,
        _figures(tx, plan, Outcome.ABSORBED, answer, summary_id=summary_id),
    )


def rewrite(tx: Transaction, plan: PassPlan, answer: StoredAnswer) -> Change:
    """Let the marker show the rewritten summary if that is small enough.

    Otherwise only the size at which the next rewrite is due changes, so that absorbing goes on.
    """
    size, old = estimate_text(answer.text), plan.marker
    if old is None or size > DEFRAG_MOST * plan.request.replaced_tokens:
        return _reject_rewrite(tx, plan, answer, None)
    connection, key, tokens = tx.connection, tx.key, size + frame_tokens()
    former = summaries.newest_live(connection, key)
    if former is None or former.id != old.summary_id:
        raise StaleError
    summary_id = _insert_summary(
        tx,
        plan,
        answer,
        SummaryKind.DEFRAG,
        tokens=tokens,
        first_position=former.first_position,
        last_position=former.last_position,
    )
    messages.change_marker(connection, key, shows=former.id, summary_id=summary_id, tokens=tokens)
    guards.clear(connection, key, GuardName.DEFRAG_MARK, GuardName.ENDPOINT_FAILURES)
    delta = tokens - old.tokens
    after = sessions.count_micro_pass(
        connection,
        key,
        messages=0,
        tokens=delta,
        absorbed=0,
        cursor_from=plan.cursor,
        cursor_to=plan.cursor,
    )
    answers.drop(connection, key, plan.answer_key)
    return Change(
        PassResult.of_change(Outcome.DEFRAGMENTED, tx.before, after),
        Continue(),
        after,
        _figures(tx, plan, Outcome.DEFRAGMENTED, answer, summary_id=summary_id),
    )


def count_failure(tx: Transaction, plan: PassPlan, error: SummariserError) -> Change:
    """Count a failure: wait, reject the rewrite, or skip the exchange.

    A failing endpoint does not count against the exchange: the job waits. A bad answer does, and
    the third one in a row skips it.
    """
    if error.error_class.not_asked:
        # Not recorded as an attempt, or every waiting session would get one each time it checks.
        return _wait(tx, plan, error, failures=1, recorded=False)
    if error.error_class.blames_endpoint:
        former = guards.read_all(tx.connection, tx.database, tx.key)
        guard = former.get(GuardName.ENDPOINT_FAILURES)
        failures = (guard.count if guard else 0) + 1
        _put_failures(tx, GuardName.ENDPOINT_FAILURES, failures, None, error)
        return _wait(tx, plan, error, failures)
    if plan.task is Task.DEFRAG:
        return _reject_rewrite(tx, plan, None, error)
    failures = plan.failures + 1
    if failures >= MOST_FAILURES:
        return _skip(tx, plan, error)
    # The endpoint did answer, so its outage is over.
    guards.clear(tx.connection, tx.key, GuardName.ENDPOINT_FAILURES)
    _put_failures(tx, GuardName.MICRO_FAILURES, failures, plan.first_position, error)
    return _wait(tx, plan, error, failures)


def nothing_left(tx: Transaction, found: NothingDue) -> Change:
    """Finish the job; record an attempt if it made no pass at all."""
    made_none = not tx.run.job.results
    checked = found.checked
    if checked is not None and checked.revision == tx.before.revision:
        sessions.note_checked(tx.connection, tx.key, checked.unabsorbed_tokens)
    result = PassResult(Outcome.NOTHING_DUE, reason=found.reason)
    return Change(result, Finish(), attempt={} if made_none else None)


def _skip(tx: Transaction, plan: PassPlan, error: SummariserError) -> Change:
    cursors.move(tx.connection, tx.key, CursorName.MICRO, plan.cursor)
    sessions.count_skipped(
        tx.connection, tx.key, cursor_from=plan.cursor_before, cursor_to=plan.cursor
    )
    guards.clear(tx.connection, tx.key, GuardName.MICRO_FAILURES, GuardName.ENDPOINT_FAILURES)
    return Change(
        PassResult(Outcome.SKIPPED, error_class=error.error_class),
        Continue(),
        attempt=_figures(tx, plan, Outcome.SKIPPED, error=error),
    )


def _reject_rewrite(
    tx: Transaction, plan: PassPlan, answer: StoredAnswer | None, error: SummariserError | None
) -> Change:
    """Set the next rewrite due when the summary has grown by half."""
    mark = plan.request.replaced_tokens * 3 // 2
    guards.put(tx.connection, tx.database, tx.key, GuardName.DEFRAG_MARK, subject=mark)
    guards.clear(tx.connection, tx.key, GuardName.ENDPOINT_FAILURES)
    answers.drop(tx.connection, tx.key, plan.answer_key)
    return Change(
        PassResult(Outcome.DEFRAG_REJECTED, mark=mark),
        Continue(),
        attempt=_figures(tx, plan, Outcome.DEFRAG_REJECTED, answer, error),
    )


def _wait(
    tx: Transaction,
    plan: PassPlan,
    error: SummariserError,
    failures: int,
    *,
    recorded: bool = True,
) -> Change:
    """Release the job until its next attempt. The guard counts failures, so that the job's own
    count is left to crashes."""
    context = tx.run.context
    delay_ms = context.retry.delay_ms(failures, error.retry_after, context.rng)
    return Change(
        PassResult.of_failure(error, context.summariser.model, delay_ms),
        Release(delay_ms, error.error_class.value),
        attempt=_figures(tx, plan, Outcome.FAILED, error=error) if recorded else None,
    )


def _put_failures(
    tx: Transaction, name: GuardName, count: int, subject: int | None, error: SummariserError
) -> None:
    guards.put(
        tx.connection,
        tx.database,
        tx.key,
        name,
        count=count,
        subject=subject,
        detail=error.error_class.value,
    )


def _insert_summary(
    tx: Transaction,
    plan: PassPlan,
    answer: StoredAnswer,
    kind: SummaryKind,
    *,
    tokens: int,
    first_position: int,
    last_position: int,
) -> int:
    """Store the new version of the summary that the plan replaces; return its id."""
    replaces = plan.marker.summary_id if plan.marker else None
    if replaces is not None:
        summaries.set_status(tx.connection, [replaces], SummaryStatus.SUPERSEDED)
    return summaries.insert_summary(
        tx.connection,
        tx.database,
        tx.key,
        kind=kind,
        text=answer.text,
        tokens=tokens,
        first_position=first_position,
        last_position=last_position,
        replaces=replaces,
        cursor_before=plan.cursor_before,
        template=TEMPLATE_VERSION,
        model=answer.model,
    )


def _is_too_long(tx: Transaction, answer: StoredAnswer) -> bool:
    """Return whether the next pass has to rewrite the summary."""
    return estimate_text(answer.text) > tx.run.settings.micro_compact_defrag_threshold_tokens


def _figures(
    tx: Transaction,
    plan: PassPlan,
    outcome: Outcome,
    answer: StoredAnswer | None = None,
    error: SummariserError | None = None,
    *,
    summary_id: int | None = None,
) -> dict[str, Any]:
    return {
        "cursor": plan.cursor if outcome.moves_cursor else plan.cursor_before,
        "absorbed_tokens": plan.absorbed_tokens,
        "summary_tokens": estimate_text(answer.text) if answer else 0,
        "summary_id": summary_id,
        "error_class": error.error_class if error else None,
        "model": answer.model if answer else tx.run.context.summariser.model,
    }
