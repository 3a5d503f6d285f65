"""The prune job, and the first step of a batch pass: shorten old tool output in one commit."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from storage.conversations import pruned, sessions
from storage.conversations.sessions import SessionRecord
from storage.errors import StorageError
from storage.outcomes import Outcome
from workers.policy.triggers import RULES, Trigger, rules_of
from workers.prune.commit import PRUNE_RULES, PruneTrigger, set_mark
from workers.prune.plan import NothingToPrune, PrunePlan, plan_prune
from workers.runtime.commit import Change, Finish, JobEnd, StaleError, Transaction, commit
from workers.runtime.pass_context import PassContext, PassResult
from workers.runtime.passes import MOST_STALE

log = logging.getLogger(__name__)

Ends: TypeAlias = Callable[[Transaction, SessionRecord], tuple[Outcome, JobEnd]]
"""Decides outcome and job end from the session as it is after pruning."""


def prune_pass(run: PassContext) -> PassResult:
    """Plan and commit one prune pass."""
    settings = run.settings
    by_person = run.claim.trigger == PruneTrigger.MANUAL
    if not by_person and not settings.enabled:
        return commit(run, partial(_nothing_due, reason="compaction is switched off"))
    least = 1 if by_person else settings.proactive_prune_min_reclaim_tokens
    rules = RULES[Trigger.MANUAL] if by_person else PRUNE_RULES
    with run.database.read() as connection:
        plan = plan_prune(connection, run.key, settings, rules, least=least)
    run.context.failpoint("planned")
    if isinstance(plan, NothingToPrune):
        # The session is checked again once it has grown by what is missing.
        growth = None if by_person else max(1, least - plan.tokens)
        return commit(run, partial(_nothing_due, reason=plan.reason, growth=growth))
    body = partial(_shorten, plan=plan, ends=_finished)
    return commit(run, body, revision=plan.session.revision)


def prune_first(run: PassContext, ends: Ends) -> PassResult | None:
    """Shorten old tool output before a batch pass, in its own transaction.

    Returns None if pruning would free too little. A failure is logged and leaves the session as it
    was, because a summary does not depend on pruning; `StorageError` and `FenceLost` are raised.
    """
    least, rules = run.settings.proactive_prune_min_reclaim_tokens, rules_of(run.claim.trigger)
    for _ in range(MOST_STALE):
        try:
            with run.database.read() as connection:
                plan = plan_prune(connection, run.key, run.settings, rules, least=least)
            if isinstance(plan, NothingToPrune):
                return None
            body = partial(_shorten, plan=plan, ends=ends)
            return commit(run, body, revision=plan.session.revision)
        except StaleError:
            continue
        except StorageError:
            raise
        except Exception as error:  # noqa: BLE001 - a summary does not depend on pruning
            log.warning("job %d: pruning failed (%s)", run.claim.job_id, type(error).__name__)
            break
    return None


def _finished(_tx: Transaction, _after: SessionRecord) -> tuple[Outcome, JobEnd]:
    return Outcome.PRUNED, Finish()


def _shorten(tx: Transaction, plan: PrunePlan, ends: Ends) -> Change:
    """Store the short forms and update the session's counts."""
    if pruned.shorten(tx.connection, tx.key, plan.forms) != len(plan.rows):
        raise StaleError
    after = sessions.count_change(
        tx.connection, tx.key, messages=0, tokens=-plan.spared, passes=1, saved=plan.spared
    )
    growth = max(plan.spared, tx.run.settings.proactive_prune_min_reclaim_tokens)
    set_mark(tx.connection, tx.database, after, growth=growth)
    outcome, end = ends(tx, after)
    result = PassResult.of_change(outcome, tx.before, after, rows=len(plan.rows))
    return Change(result, end, after)


def _nothing_due(tx: Transaction, reason: str, growth: int | None = None) -> Change:
    if growth is not None:
        set_mark(tx.connection, tx.database, tx.before, growth=growth)
    return Change(PassResult(Outcome.NOTHING_DUE, reason=reason), Finish())
