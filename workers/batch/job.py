"""The batch job: one pass over the middle of a session, and every way out of failure."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from sqlalchemy import Connection

from storage import guards, jobs, sessions
from storage.answers import StoredAnswer
from storage.errors import FenceLost
from storage.guards import GuardName
from storage.jobs import Claim, DueJob, Ended
from storage.signals import Signal, SignalKind
from workers.batch import failing, ladder
from workers.batch.asking import Asking, Meter
from workers.batch.compacting import compact
from workers.batch.healing import heal, plan_heal
from workers.batch.material import material_of
from workers.batch.outcomes import (
    BatchOutcome,
    Folded,
    GaveUp,
    HeldBack,
    NothingToCompact,
    PrunedEnough,
)
from workers.batch.plan import BatchPlan, Circumstances, learned_room, plan_batch
from workers.batch.requests import Requests, write_requests
from workers.batch.resetting import ResetPlan, plan_reset, reset
from workers.batch.telling import Telling
from workers.batch.trial import Trial
from workers.batch.wishes import Wishes
from workers.closing import StaleError, note
from workers.holds import held_back
from workers.lease import kept
from workers.micro.outcomes import Failed, HandedBack, Stale
from workers.summariser.contract import ErrorClass, Gated, Stopped, SummariserError
from workers.told_passes import tell_discarded
from workers.triggers import Trigger, rules_of
from workers.workshop import Workshop

log = logging.getLogger(__name__)

MOST_STALE = 5
"""Plans in a row that may prove stale before the job lets other work go first."""

LOOK_AGAIN_MS = 600_000
"""When a placeholder that must not be healed now is looked at again."""


@dataclass(frozen=True, slots=True)
class BatchReport:
    """What a claim of a batch job came to, what gateways are told, and what is due next."""

    outcomes: tuple[BatchOutcome, ...]
    signals: tuple[Signal, ...] = ()
    due: tuple[DueJob, ...] = field(default=())


def run_batch(shop: Workshop, claim: Claim) -> BatchReport:
    """Work a claimed batch job until it is done, must wait, or the worker stops.

    Database errors pass through: the lease then ends by itself and the job is claimed again.
    """
    outcomes: list[BatchOutcome] = []
    telling = Telling(shop, claim.session_key)
    with kept(shop, claim) as gone:
        try:
            while len(outcomes) < MOST_STALE and all(isinstance(o, Stale) for o in outcomes):
                # A model call that runs is waited for when the worker stops: it is paid already.
                stops = gone() or shop.stopping()
                outcomes.append(HandedBack() if stops else _try(shop, claim, telling, gone))
            due = _leave(shop, claim, outcomes[-1])
        except FenceLost:
            tell_discarded(log, claim)
            return BatchReport((*outcomes, HandedBack()), tuple(telling.told))
    return BatchReport(tuple(outcomes), tuple(telling.told), due)


def _try(shop: Workshop, claim: Claim, telling: Telling, stop: Callable[[], bool]) -> BatchOutcome:
    trial = Trial(
        shop=shop,
        claim=claim,
        rules=rules_of(claim.trigger),
        settings=shop.settings.current().compression,
        meter=Meter(),
        telling=telling,
        started=time.monotonic(),
    )
    try:
        if claim.trigger == Trigger.HEAL:
            return _heal(trial, stop)
        return _compact(trial, stop)
    except Stopped:
        return HandedBack()
    except StaleError:
        with shop.database.write() as connection:
            note(shop, connection, claim, "stale")
        return Stale()


def _compact(trial: Trial, stop: Callable[[], bool]) -> BatchOutcome:
    """Prune, plan, summarise, commit; each step may end the pass."""
    spent = trial.claim.tries >= trial.settings.summary_attempts
    if (held := _held_back(trial, spent=spent)) is not None:
        trial.leave("held_back")
        return held
    given = Circumstances(trial.settings, trial.rules, Wishes.of(trial.claim.options))
    if spent:
        return _fall(trial, given, None)
    if trial.rules.prunes_first:
        pruned = _prune(trial)
        if isinstance(pruned, PrunedEnough):
            return pruned
        trial = replace(trial, freed=pruned)
    with trial.shop.database.read() as connection:
        plan = plan_batch(connection, trial.claim.session_key, given)
    if isinstance(plan, NothingToCompact):
        return _nothing(trial, plan)
    trial.shop.reach("planned")
    if trial.settings.progress_notices and not _only_waited(trial.claim):
        with trial.shop.database.write() as connection:
            trial.telling.tell(connection, SignalKind.STARTED, trigger=trial.claim.trigger)
    try:
        _knock(trial)
        answer = _ask(trial, _requests(trial, plan, given), stop)
    except SummariserError as error:
        return _failed(trial, given, error)
    trial.shop.reach("answered")
    return compact(trial, plan, answer)


def _heal(trial: Trial, stop: Callable[[], bool]) -> BatchOutcome:
    """Replace a placeholder, or wait for the model to answer again."""
    if (held := _held_back(trial, spent=False)) is not None:
        with trial.closing() as (connection, _):
            jobs.release(
                connection,
                trial.shop.database,
                trial.claim,
                delay_ms=LOOK_AGAIN_MS,
                reason=held.reason,
                ended=Ended.FORESEEN,
            )
        return held
    shop = trial.shop
    with shop.database.read() as connection:
        plan = plan_heal(connection, trial.claim.session_key)
        most = learned_room(connection, shop, trial.claim.session_key)
    if plan is None:
        with trial.closing() as (connection, _):
            trial.finish(connection)
        return NothingToCompact("no placeholder is shown")
    requests = write_requests(
        plan.given,
        target_tokens=plan.target_tokens,
        replaced_tokens=plan.given.tokens,
        room=shop.summariser.room,
        most_room=most,
        focus="",
        today=shop.today(),
    )
    trial.shop.reach("planned")
    try:
        answer = _ask(trial, requests, stop)
    except SummariserError as error:
        again = ladder.heal_again(error, tries=trial.claim.tries, retry=shop.retry, rng=shop.rng)
        return failing.wait(trial, error, again)
    trial.shop.reach("answered")
    return heal(trial, plan, answer)


def _held_back(trial: Trial, *, spent: bool) -> HeldBack | None:
    """What holds the pass back. A job whose attempts are `spent` has set the cooldown itself."""
    shop, key = trial.shop, trial.claim.session_key
    rules = replace(trial.rules, honours_cooldown=False) if spent else trial.rules
    with shop.database.read() as connection:
        if _active_again(trial, connection):
            return HeldBack("the session is not idle any more")
        hold = held_back(
            rules,
            guards.read_all(connection, shop.database, key),
            session=sessions.fetch(connection, key),
            settings=trial.settings,
            fingerprint=shop.summariser.fingerprint,
        )
    return None if hold is None else HeldBack(hold.reason)


def _knock(trial: Trial) -> None:
    """Raise the error of a summariser that nobody may ask now, before a long prompt is written
    for nothing."""
    summariser = trial.shop.summariser
    closed = summariser.check_breaker() if isinstance(summariser, Gated) else None
    if closed is not None:
        raise closed


def _active_again(trial: Trial, connection: Connection) -> bool:
    """Whether somebody came back while a pass over an idle session waited for a worker; it will be
    looked at anew when it has become idle again."""
    if trial.claim.trigger != Trigger.IDLE:
        return False
    idle_ms = sessions.idle_ms(connection, trial.shop.database, trial.claim.session_key)
    return idle_ms < 1000 * trial.settings.idle_compact_after_seconds


def _prune(trial: Trial) -> PrunedEnough | int:
    """The first layer: shorten old tool output; enough where the view is below the threshold
    afterwards (ENGINE.md §6.1), else it gives the tokens that were freed."""
    shop, key = trial.shop, trial.claim.session_key
    with shop.database.read() as connection:
        before = sessions.fetch(connection, key)
    pruned = shop.prune(shop, trial.claim)
    if not pruned.tokens:
        return 0
    with trial.closing() as (connection, after):
        if trial.is_over(after):
            trial.record(connection, "pruned", before, after)
            return pruned.tokens
        trial.record(connection, "pruned_enough", before, after)
        trial.finish(connection)
    shop.reach("after-commit")
    return PrunedEnough(pruned.rows, before.live_tokens, after.live_tokens)


def _only_waited(claim: Claim) -> bool:
    """Whether the try before this one asked nobody: what it told still stands."""
    return claim.reason in (ErrorClass.BREAKER_OPEN, ErrorClass.LIMIT_REACHED)


def _requests(trial: Trial, plan: BatchPlan, given: Circumstances) -> Requests:
    shop, key = trial.shop, trial.claim.session_key
    with shop.database.read() as connection:
        read = material_of(connection, key, plan.span)
        most = learned_room(connection, shop, key)
    hygiene = trial.rules.hygiene
    return write_requests(
        read,
        target_tokens=plan.target_tokens,
        replaced_tokens=plan.span.tokens,
        room=shop.summariser.room,
        most_room=most,
        focus=given.wishes.focus,
        today=shop.today(),
        idle_seconds=trial.settings.hygiene_timeout_seconds if hygiene else None,
        total_seconds=trial.settings.hygiene_total_ceiling_seconds if hygiene else None,
    )


def _ask(trial: Trial, requests: Requests, stop: Callable[[], bool]) -> StoredAnswer:
    shop = trial.shop

    def more_time() -> None:
        with shop.database.write() as connection:
            jobs.extend(
                connection,
                shop.database,
                trial.claim,
                lease_ms=shop.lease_ms,
                deadline_ms=shop.deadline_ms,
            )

    asking = Asking(shop, trial.claim.session_key, trial.meter, stop, more_time)
    return asking.ask(requests)


def _failed(trial: Trial, given: Circumstances, error: SummariserError) -> BatchOutcome:
    next_step = ladder.after_failure(
        error,
        tries=trial.claim.tries,
        rules=trial.rules,
        settings=trial.settings,
        retry=trial.shop.retry,
        rng=trial.shop.rng,
    )
    if isinstance(next_step, ladder.AskAgain):
        return failing.wait(trial, error, next_step)
    failed = failing.give_up(trial, error)
    return _fall(trial.afresh(), given, failed)


def _fall(trial: Trial, given: Circumstances, failed: Failed | None) -> BatchOutcome:
    """What is left when no attempt is: placeholder, unchanged session, or reset."""
    folded = _fold(trial, given) if ladder.folds(trial.rules, trial.settings) else None
    if failing.conclude(trial):
        with trial.shop.database.read() as connection:
            plan = plan_reset(connection, trial.claim.session_key, trial.settings)
        if isinstance(plan, ResetPlan):
            return reset(trial, plan)
        with trial.closing() as (connection, _):
            trial.finish(connection)
    return folded or GaveUp(failed)


def _fold(trial: Trial, given: Circumstances) -> Folded | None:
    for _ in range(MOST_STALE):
        with trial.shop.database.read() as connection:
            plan = plan_batch(connection, trial.claim.session_key, given)
            if isinstance(plan, NothingToCompact):
                return None
            read = material_of(connection, trial.claim.session_key, plan.span)
        try:
            folded = failing.fold(trial, plan, read)
        except StaleError:
            continue
        return folded if isinstance(folded, Folded) else None
    return None


def _nothing(trial: Trial, found: NothingToCompact) -> NothingToCompact:
    """Remember that there was nothing to do, until something changes (ENGINE.md §6.7)."""
    with trial.closing() as (connection, session):
        guards.put(
            connection,
            trial.shop.database,
            session.key,
            GuardName.NOTHING_TO_COMPACT,
            count=session.next_position,
            subject=session.revision,
            detail=found.reason,
        )
        note(trial.shop, connection, trial.claim, "no_op")
        trial.finish(connection)
    return found


def _leave(shop: Workshop, claim: Claim, last: BatchOutcome) -> tuple[DueJob, ...]:
    """Give the job back where its last outcome did not end it; say what is due now."""
    with shop.database.write() as connection:
        sessions.lock(connection, claim.session_key)
        if isinstance(last, Stale | HandedBack):
            jobs.release(
                connection, shop.database, claim, delay_ms=0, reason=None, ended=Ended.HANDED_BACK
            )
        return tuple(jobs.due_in_session(connection, shop.database, claim.session_key))
