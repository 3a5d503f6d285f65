"""The prune job: shorten old tool output, once, in one commit."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field

from storage import cursors, jobs, sessions
from storage.cursors import CursorName
from storage.errors import FenceLost
from storage.jobs import Claim, DueJob, Ended
from workers.closing import StaleError, closing, note, record
from workers.micro.outcomes import HandedBack, Stale
from workers.pruning.commit import commit_prune, set_mark
from workers.pruning.outcomes import NothingToPrune, OutputPruned, PruneOutcome
from workers.pruning.plan import PrunePlan, plan_prune
from workers.pruning.triggers import PRUNE_RULES, PruneTrigger
from workers.told_passes import tell_discarded
from workers.triggers import RULES, Trigger
from workers.workshop import Workshop

log = logging.getLogger(__name__)

MOST_STALE = 5
"""Plans in a row that may prove stale before the job lets other work go first."""


@dataclass(frozen=True, slots=True)
class PruneReport:
    """What a claim of a prune job came to, and what is due next in its session."""

    outcomes: tuple[PruneOutcome, ...]
    due: tuple[DueJob, ...] = field(default=())


def run_prune(shop: Workshop, claim: Claim) -> PruneReport:
    """Work a claimed prune job: plan, commit, done.

    Database errors pass through: the lease then ends by itself and the job is claimed again.
    """
    outcomes: list[PruneOutcome] = []
    try:
        while len(outcomes) < MOST_STALE and all(isinstance(one, Stale) for one in outcomes):
            outcomes.append(HandedBack() if shop.stopping() else _try(shop, claim))
        due = _leave(shop, claim, outcomes[-1])
    except FenceLost:
        tell_discarded(log, claim)
        return PruneReport((*outcomes, HandedBack()))
    return PruneReport(tuple(outcomes), due)


def _try(shop: Workshop, claim: Claim) -> PruneOutcome:
    started = time.monotonic()
    settings = shop.settings.current().compression
    by_person = claim.trigger == PruneTrigger.MANUAL
    if not by_person and not settings.enabled:
        return _nothing(shop, claim, NothingToPrune("compaction is switched off"))
    least = 1 if by_person else settings.proactive_prune_min_reclaim_tokens
    rules = RULES[Trigger.MANUAL] if by_person else PRUNE_RULES
    with shop.database.read() as connection:
        plan = plan_prune(connection, claim.session_key, settings, rules, least=least)
    shop.reach("planned")
    if isinstance(plan, NothingToPrune):
        return _nothing(shop, claim, plan, missing=max(1, least - plan.tokens))
    try:
        return _commit(shop, claim, plan, started)
    except StaleError:
        with shop.database.write() as connection:
            note(shop, connection, claim, "stale")
        return Stale()


def _commit(shop: Workshop, claim: Claim, plan: PrunePlan, started: float) -> OutputPruned:
    settings = shop.settings.current().compression
    with closing(shop, claim, revision=plan.session.revision) as (connection, before):
        after = commit_prune(connection, plan)
        growth = max(plan.spared, settings.proactive_prune_min_reclaim_tokens)
        set_mark(connection, shop.database, after, growth=growth)
        record(
            shop,
            connection,
            claim,
            outcome="pruned",
            before=before,
            after=after,
            threshold_tokens=plan.threshold.tokens,
            cursor=cursors.read(connection, before.key, CursorName.MICRO),
            total_ms=int(1000 * (time.monotonic() - started)),
        )
        jobs.finish(connection, shop.database, claim)
    shop.reach("after-commit")
    return OutputPruned(len(plan.rows), before.live_tokens, after.live_tokens)


def _nothing(
    shop: Workshop, claim: Claim, found: NothingToPrune, *, missing: int | None = None
) -> NothingToPrune:
    """Finish the job. What is `missing` has to come in first before anybody looks again."""
    with closing(shop, claim, revision=None) as (connection, session):
        if missing is not None and claim.trigger != PruneTrigger.MANUAL:
            set_mark(connection, shop.database, session, growth=missing)
        note(shop, connection, claim, "nothing_to_prune")
        jobs.finish(connection, shop.database, claim)
    return found


def _leave(shop: Workshop, claim: Claim, last: PruneOutcome) -> tuple[DueJob, ...]:
    """Give the job back where its last outcome did not end it; say what is due now."""
    with shop.database.write() as connection:
        sessions.lock(connection, claim.session_key)
        if isinstance(last, Stale | HandedBack):
            jobs.release(
                connection, shop.database, claim, delay_ms=0, reason=None, ended=Ended.HANDED_BACK
            )
        return tuple(jobs.due_in_session(connection, shop.database, claim.session_key))
