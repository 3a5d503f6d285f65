"""The first layer of a batch pass: the rules of ENGINE.md §8 before a model is asked (§6.1)."""

from __future__ import annotations

import logging

from storage.errors import StorageError
from storage.jobs import Claim
from workers.closing import StaleError, closing
from workers.pruning.commit import commit_prune, set_mark
from workers.pruning.outcomes import NothingToPrune
from workers.pruning.plan import plan_prune
from workers.triggers import rules_of
from workers.workshop import Pruned, Workshop

log = logging.getLogger(__name__)

_MOST_STALE = 5


def prune_first(shop: Workshop, claim: Claim) -> Pruned:
    """Shorten old tool output of a claimed job's session, in a transaction of its own.

    A pass that would free too little does nothing. A failure leaves the session as it was,
    quietly, for a summary does not depend on it; `StorageError` and `FenceLost` pass.
    """
    try:
        for _ in range(_MOST_STALE):
            try:
                return _prune(shop, claim)
            except StaleError:
                continue
    except StorageError:
        raise
    except Exception as error:  # noqa: BLE001 - a summary can be had without it
        log.warning("job %d: pruning failed (%s)", claim.job_id, type(error).__name__)
    return Pruned()


def _prune(shop: Workshop, claim: Claim) -> Pruned:
    settings = shop.settings.current().compression
    least = settings.proactive_prune_min_reclaim_tokens
    with shop.database.read() as connection:
        plan = plan_prune(
            connection, claim.session_key, settings, rules_of(claim.trigger), least=least
        )
    if isinstance(plan, NothingToPrune):
        return Pruned()
    with closing(shop, claim, revision=plan.session.revision) as (connection, _):
        after = commit_prune(connection, plan)
        set_mark(connection, shop.database, after, growth=max(plan.spared, least))
    shop.reach("after-commit")
    return Pruned(len(plan.rows), plan.spared)
