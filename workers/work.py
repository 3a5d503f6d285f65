"""Work one job from claim to outcome."""

from __future__ import annotations

import logging
import traceback
from dataclasses import dataclass

from storage import jobs, sessions
from storage.errors import FenceLost, StorageError
from storage.jobs import MAX_CRASHES, Claim, DueJob, JobKind
from storage.signals import Signal
from workers.batch.job import run_batch
from workers.batch.outcomes import BatchOutcome
from workers.micro.job import run_micro
from workers.micro.outcomes import Failed, PassOutcome
from workers.turn import run_turn
from workers.workshop import Workshop

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class NotClaimed:
    """Nothing to do: somebody else works the job or its session, or it is not due any more."""


@dataclass(frozen=True, slots=True)
class Worked:
    """The job was worked on. `due` are the jobs to ring for now, `signals` what gateways were
    told of it."""

    kind: JobKind
    passes: tuple[PassOutcome | BatchOutcome, ...]
    due: tuple[DueJob, ...]
    signals: tuple[Signal, ...] = ()

    @property
    def failed(self) -> Failed | None:
        """The last pass, where it failed and will be tried again."""
        last = self.passes[-1] if self.passes else None
        return last if isinstance(last, Failed) else None


@dataclass(frozen=True, slots=True)
class Crashed:
    """The job raised something that nobody foresaw. `dead` says that it is not tried again, `due`
    are the jobs to ring for now."""

    error: BaseException
    dead: bool
    retry_ms: int
    due: tuple[DueJob, ...] = ()


def work(shop: Workshop, job_id: int) -> NotClaimed | Worked | Crashed:
    """Claim a job and work it.

    Raises `StorageError` when the database fails; the job's lease then ends by itself.
    """
    database = shop.database
    with database.write() as connection:
        claim = jobs.claim(
            connection,
            database,
            job_id,
            holder=shop.holder,
            lease_ms=shop.lease_ms,
            deadline_ms=shop.deadline_ms,
        )
    if claim is None:
        return NotClaimed()
    shop.reach("claimed")
    try:
        match claim.kind:
            case JobKind.TURN:
                turn = run_turn(shop, claim)
                return Worked(claim.kind, (), turn.due, turn.signals)
            case JobKind.MICRO:
                micro = run_micro(shop, claim)
                return Worked(claim.kind, micro.outcomes, micro.due)
            case JobKind.BATCH:
                batch = run_batch(shop, claim)
                return Worked(claim.kind, batch.outcomes, batch.due, batch.signals)
    except StorageError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, the job's row says so
        return _crashed(shop, claim, error)


def _crashed(shop: Workshop, claim: Claim, error: Exception) -> Crashed:
    dead = claim.attempt >= MAX_CRASHES
    delay_ms = shop.retry.delay_ms(claim.attempt, None, shop.rng)
    reason = type(error).__name__
    # The frames without the error's own text, which may quote a conversation.
    trace = "".join(traceback.format_tb(error.__traceback__))
    log.error("job %d (%s) failed: %s\n%s", claim.job_id, claim.kind.value, reason, trace)
    try:
        with shop.database.write() as connection:
            sessions.lock(connection, claim.session_key)
            if dead:
                jobs.bury(connection, shop.database, claim, reason=reason, trace=trace)
            else:
                jobs.release(
                    connection,
                    shop.database,
                    claim,
                    delay_ms=delay_ms,
                    reason=reason,
                    attempt_counts=True,
                )
            due = tuple(jobs.due_in_session(connection, shop.database, claim.session_key))
    except FenceLost:
        return Crashed(error, dead=False, retry_ms=0)
    return Crashed(error, dead, delay_ms, due)
