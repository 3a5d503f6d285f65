"""The batch job: one pass over the middle of a session, including its failure policy."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from sqlalchemy import Connection

from storage import guards
from storage.conversations import sessions
from storage.conversations.sessions import SessionRecord
from storage.guards import GuardName
from storage.jobs import Claim
from storage.outcomes import Outcome
from storage.signals import SignalKind
from workers.batch.compaction import compact, end_of_job, is_over
from workers.batch.failures import fall_back, handle_failure, wait
from workers.batch.plan import (
    BatchPlan,
    Circumstances,
    NothingToCompact,
    learned_room,
    material_of,
    plan_batch,
)
from workers.batch.replacement import plan_replacement, replace_placeholder
from workers.batch.requests import Requests, ask_all, write_requests
from workers.batch.span import CompactionOptions
from workers.policy.failures import retry_replacement
from workers.policy.guards import suppressed_by
from workers.policy.triggers import Trigger, TriggerRules, rules_of
from workers.prune.job import prune_first
from workers.runtime.commit import Change, JobEnd, Keep, Release, Transaction, commit, emit_alone
from workers.runtime.pass_context import PassContext, PassResult
from workers.summariser.contract import ErrorClass, Gated, SummariserError

CHECK_AGAIN_MS = 600_000
"""Delay after which a suppressed replacement of a placeholder is tried again."""


def batch_pass(run: PassContext) -> PassResult:
    """Prune, plan, summarise and commit one batch pass; any step may end it."""
    rules = rules_of(run.claim.trigger)
    if run.claim.trigger == Trigger.REPLACE_PLACEHOLDER:
        return _replacement_pass(run, rules)
    given = Circumstances(run.settings, rules, CompactionOptions.of(run.claim.options))
    begun = _begin(run, given)
    if isinstance(begun, PassResult):
        return begun
    with run.database.read() as connection:
        plan = plan_batch(connection, run.key, given)
    if isinstance(plan, NothingToCompact):
        return commit(run, partial(_nothing_due, found=plan))
    run.context.failpoint("planned")
    if run.settings.progress_notices and not _only_waited(run.claim):
        emit_alone(run, SignalKind.STARTED, {"trigger": run.claim.trigger})
    try:
        _check_breaker(run)
        answer = ask_all(run, _requests(run, plan, given))
    except SummariserError as error:
        return handle_failure(run, given, error)
    run.context.failpoint("answered")
    body = partial(compact, plan=plan, answer=answer, freed=begun)
    return commit(run, body, revision=plan.session.revision)


def _begin(run: PassContext, given: Circumstances) -> PassResult | int:
    """Check the guards and prune. Return the pass's result if that ends it, else the tokens that
    pruning freed."""
    rules = given.rules
    spent = run.claim.tries >= run.settings.summary_attempts
    if (suppressed := _suppressed(run, rules, spent=spent)) is not None:
        return commit(run, lambda tx: Change(suppressed, end_of_job(tx)))
    if spent:
        return fall_back(run, given, PassResult(Outcome.GAVE_UP))
    pruned = prune_first(run, _after_pruning) if rules.prunes_first else None
    if pruned is None:
        return 0
    enough = pruned.outcome is Outcome.PRUNED_ENOUGH
    return pruned if enough else pruned.tokens_before - pruned.tokens_after


def _replacement_pass(run: PassContext, rules: TriggerRules) -> PassResult:
    """Replace the placeholder that is shown, or retry later."""
    context = run.context
    if (suppressed := _suppressed(run, rules, spent=False)) is not None:
        later = Release(CHECK_AGAIN_MS, suppressed.reason)
        return commit(run, lambda _: Change(suppressed, later, attempt=None))
    with run.database.read() as connection:
        plan = plan_replacement(connection, run.key)
        most = learned_room(connection, context, run.key)
    if plan is None:
        nothing = PassResult(Outcome.NOTHING_DUE, reason="no placeholder is shown")
        return commit(run, lambda tx: Change(nothing, end_of_job(tx), attempt=None))
    requests = write_requests(
        plan.given,
        target_tokens=plan.target_tokens,
        replaced_tokens=plan.given.tokens,
        room=context.summariser.room,
        most_room=most,
        focus="",
        today=context.today(),
    )
    context.failpoint("planned")
    try:
        answer = ask_all(run, requests)
    except SummariserError as error:
        again = retry_replacement(
            error, tries=run.claim.tries, retry=context.retry, rng=context.rng
        )
        return commit(run, partial(wait, error=error, again=again))
    context.failpoint("answered")
    body = partial(replace_placeholder, plan=plan, answer=answer)
    return commit(run, body, revision=plan.session.revision)


def _suppressed(run: PassContext, rules: TriggerRules, *, spent: bool) -> PassResult | None:
    """Return a result if the pass must not run now. A job whose attempts are `spent` set the
    cooldown itself and ignores it."""
    if spent:
        rules = replace(rules, honours_cooldown=False)
    with run.database.read() as connection:
        if _is_active_again(run, connection):
            return PassResult(Outcome.SUPPRESSED, reason="the session is no longer idle")
        found = suppressed_by(
            rules,
            guards.read_all(connection, run.database, run.key),
            session=sessions.fetch(connection, run.key),
            settings=run.settings,
            fingerprint=run.context.summariser.fingerprint,
        )
    return None if found is None else PassResult(Outcome.SUPPRESSED, reason=found.reason)


def _is_active_again(run: PassContext, connection: Connection) -> bool:
    """Return whether the session became active while its idle pass waited for a worker; it is
    checked anew when it is idle again."""
    if run.claim.trigger != Trigger.IDLE:
        return False
    idle_ms = sessions.idle_ms(connection, run.database, run.key)
    return idle_ms < 1000 * run.settings.idle_compact_after_seconds


def _check_breaker(run: PassContext) -> None:
    """Raise the error of a summariser that must not be asked now, before a long prompt is built."""
    summariser = run.context.summariser
    error = summariser.check_breaker() if isinstance(summariser, Gated) else None
    if error is not None:
        raise error


def _after_pruning(tx: Transaction, after: SessionRecord) -> tuple[Outcome, JobEnd]:
    """End the job, unless the view is still over its threshold and needs a summary."""
    if is_over(after, tx.run.settings):
        return Outcome.PRUNED, Keep()
    return Outcome.PRUNED_ENOUGH, end_of_job(tx)


def _only_waited(claim: Claim) -> bool:
    """Return whether the last attempt sent no request: its start was already signalled."""
    return claim.reason in (ErrorClass.BREAKER_OPEN, ErrorClass.LIMIT_REACHED)


def _requests(run: PassContext, plan: BatchPlan, given: Circumstances) -> Requests:
    with run.database.read() as connection:
        read = material_of(connection, run.key, plan.span)
        most = learned_room(connection, run.context, run.key)
    hygiene = given.rules.hygiene
    return write_requests(
        read,
        target_tokens=plan.target_tokens,
        replaced_tokens=plan.span.tokens,
        room=run.context.summariser.room,
        most_room=most,
        focus=given.options.focus,
        today=run.context.today(),
        idle_seconds=run.settings.hygiene_timeout_seconds if hygiene else None,
        total_seconds=run.settings.hygiene_total_ceiling_seconds if hygiene else None,
    )


def _nothing_due(tx: Transaction, found: NothingToCompact) -> Change:
    """Record that there is nothing to compact until the session changes."""
    guards.put(
        tx.connection,
        tx.database,
        tx.key,
        GuardName.NOTHING_TO_COMPACT,
        count=tx.before.next_position,
        subject=tx.before.revision,
        detail=found.reason,
    )
    return Change(PassResult(Outcome.NOTHING_DUE, reason=found.reason), end_of_job(tx))
