"""End a batch pass that got no summary: wait, give up, fall back to a placeholder, reset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from storage import guards, jobs
from storage.conversations.summaries import SummaryKind
from storage.guards import GuardName
from storage.outcomes import Outcome
from storage.signals import SignalKind
from workers.batch.compaction import (
    LOCAL,
    OF_THE_OLD_VIEW,
    Substitute,
    end_of_job,
    smallest,
    substitute,
)
from workers.batch.plan import (
    BatchPlan,
    Circumstances,
    NothingToCompact,
    material_of,
    plan_batch,
)
from workers.batch.reset import ResetPlan, plan_reset, reset
from workers.conversation.tokens import estimate_text
from workers.policy.calibration import Calibration
from workers.policy.failures import (
    NEARLY_FULL,
    AskAgain,
    after_failure,
    cooldown_ms,
    uses_placeholder,
)
from workers.policy.threshold import usable_window
from workers.policy.triggers import TriggerRules
from workers.runtime.commit import (
    Change,
    Keep,
    Release,
    StaleError,
    Transaction,
    commit,
    view_facts,
)
from workers.runtime.pass_context import PassContext, PassResult
from workers.runtime.passes import MOST_STALE
from workers.summariser.contract import ErrorClass, SummariserError
from workers.summariser.extractive.placeholder import placeholder

LEAST_ROOM = 1_000
"""Characters that a request may always have, however often one was refused as too long."""


def handle_failure(run: PassContext, given: Circumstances, error: SummariserError) -> PassResult:
    """Retry later, or give up and fall back."""
    context = run.context
    step = after_failure(
        error,
        tries=run.claim.tries,
        rules=given.rules,
        settings=run.settings,
        retry=context.retry,
        rng=context.rng,
    )
    if isinstance(step, AskAgain):
        return commit(run, partial(wait, error=error, again=step))
    body = partial(_give_up, error=error, rules=given.rules)
    failed = commit(run, body, failpoint="gave-up")
    return fall_back(run.fresh(), given, replace(failed, outcome=Outcome.GAVE_UP))


def wait(tx: Transaction, error: SummariserError, again: AskAgain) -> Change:
    """Release the job until its next attempt. An attempt is recorded only if it was spent."""
    if again.counts:
        _learn_room(tx, error)
    return Change(
        PassResult.of_failure(error, tx.run.context.summariser.model, again.delay_ms),
        Release(
            again.delay_ms,
            error.error_class.value,
            # Counted in `tries`, so that the count of claims is left to crashes.
            tries=tx.run.claim.tries + again.counts,
        ),
        attempt=_failed_attempt(tx, error) if again.counts else None,
    )


def fall_back(run: PassContext, given: Circumstances, gave_up: PassResult) -> PassResult:
    """End a job without attempts left: by a placeholder, an unchanged session, or a reset."""
    result = gave_up
    if uses_placeholder(given.rules, run.settings):
        result = _fall_back_to_placeholder(run, given) or gave_up
    commit(run, partial(_finish, result=result, rules=given.rules))
    if run.job.due is not None:
        return result
    with run.database.read() as connection:
        plan = plan_reset(connection, run.key, run.settings)
    if isinstance(plan, ResetPlan):
        return commit(run, partial(reset, plan=plan), revision=plan.session.revision)
    return commit(run, lambda tx: Change(result, end_of_job(tx), attempt=None))


def _give_up(tx: Transaction, error: SummariserError, rules: TriggerRules) -> Change:
    """Record the last attempt and start the cooldown. The job stays with this worker; after a crash
    the next one sees that no attempt is left."""
    _learn_room(tx, error)
    name = error.error_class.value
    signals: list[tuple[SignalKind, Mapping[str, Any]]] = [(SignalKind.FAILED, {"error": name})]
    if rest_ms := cooldown_ms(rules, tx.run.settings):
        guards.put(
            tx.connection,
            tx.database,
            tx.key,
            GuardName.COOLDOWN,
            subject=tx.run.context.summariser.fingerprint,
            detail=name,
            hold_ms=rest_ms,
        )
        cooldown = guards.read_all(tx.connection, tx.database, tx.key)[GuardName.COOLDOWN]
        signals.append((SignalKind.COOLDOWN, {"error": name, "until": cooldown.until_at}))
    jobs.note_tries(tx.connection, tx.run.claim, tx.run.settings.summary_attempts)
    return Change(
        PassResult.of_failure(error, tx.run.context.summariser.model),
        Keep(),
        attempt=_failed_attempt(tx, error),
        signals=tuple(signals),
    )


def _fall_back_to_placeholder(run: PassContext, given: Circumstances) -> PassResult | None:
    """Replace the middle by a placeholder; return None if that would not be smaller."""
    for _ in range(MOST_STALE):
        with run.database.read() as connection:
            plan = plan_batch(connection, run.key, given)
            if isinstance(plan, NothingToCompact):
                return None
            read = material_of(connection, run.key, plan.span)
        text = placeholder(
            read.rows,
            previous=read.previous,
            budget_tokens=plan.span.tokens // 2,
            shows_request=not plan.verbatim,
        )
        new = smallest(SummaryKind.PLACEHOLDER, text, plan.verbatim, LOCAL, plan.span.tokens)
        if new.tokens >= plan.span.tokens:
            return None
        try:
            return commit(
                run,
                partial(_use_placeholder, plan=plan, new=new, text=text),
                revision=plan.session.revision,
                failpoint="fell-back",
            )
        except StaleError:
            continue
    return None


def _use_placeholder(tx: Transaction, plan: BatchPlan, new: Substitute, text: str) -> Change:
    summary_id, after = substitute(tx, plan.span, new, cursor_before=plan.cursor_before)
    guards.clear(tx.connection, tx.key, *OF_THE_OLD_VIEW)
    rows = len(plan.span.messages)
    return Change(
        PassResult.of_change(Outcome.PLACEHOLDER, tx.before, after, rows=rows),
        Keep(),
        after,
        {
            "absorbed_tokens": plan.span.tokens,
            "summary_tokens": estimate_text(text),
            "summary_id": summary_id,
        },
        ((SignalKind.PLACEHOLDER, view_facts(tx.before, after)),),
    )


def _finish(tx: Transaction, result: PassResult, rules: TriggerRules) -> Change:
    """Count the job if it failed in a nearly full window, and end it.

    After too many such jobs it stays with this worker instead, for a reset.
    """
    failures = 0 if rules.leaves_unchanged else _count_nearly_full(tx)
    if failures < tx.run.settings.exhausted_after or not failures:
        return Change(result, end_of_job(tx), attempt=None)
    signals = ((SignalKind.EXHAUSTED, {"failures": failures}),)
    return Change(result, Keep(), attempt=None, signals=signals)


def _count_nearly_full(tx: Transaction) -> int:
    """Return how many jobs in a row have failed in a nearly full window, this one included."""
    estimate = Calibration.of(tx.before.calibration).estimate(tx.before.live_tokens)
    if estimate <= NEARLY_FULL * usable_window(tx.before):
        guards.clear(tx.connection, tx.key, GuardName.BATCH_FAILURES)
        return 0
    former = guards.read_all(tx.connection, tx.database, tx.key).get(GuardName.BATCH_FAILURES)
    count = (former.count if former else 0) + 1
    guards.put(tx.connection, tx.database, tx.key, GuardName.BATCH_FAILURES, count=count)
    return count


def _learn_room(tx: Transaction, error: SummariserError) -> None:
    """After a request that was too long, let the next one be half as long."""
    if error.error_class is not ErrorClass.CONTEXT_OVERFLOW:
        return
    guards.put(
        tx.connection,
        tx.database,
        tx.key,
        GuardName.INPUT_ROOM,
        count=tx.run.context.summariser.fingerprint,
        subject=max(LEAST_ROOM, tx.run.cost.asked_chars // 2),
    )


def _failed_attempt(tx: Transaction, error: SummariserError) -> Mapping[str, Any]:
    return {"error_class": error.error_class, "model": tx.run.context.summariser.model}
