"""Work one job from claim to outcome: the one that was asked for, or the one whose turn it is."""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TypeAlias

from sqlalchemy import Connection

from storage import jobs, sessions
from storage.errors import FenceLost, StorageError
from storage.jobs import MAX_CRASHES, Choice, Claim, DueJob, Ended, JobKind
from storage.models import BULK_QUEUE
from storage.signals import Signal
from workers.batch.job import run_batch
from workers.batch.outcomes import BatchOutcome
from workers.micro.job import run_micro
from workers.micro.outcomes import Failed, PassOutcome
from workers.pruning.job import run_prune
from workers.pruning.outcomes import PruneOutcome
from workers.scans.recompaction import refill
from workers.scans.reconcile import notify_bulk
from workers.telemetry import tracing
from workers.told_passes import Run, tell_crash, tell_run
from workers.turn import run_turns
from workers.workshop import Workshop

log = logging.getLogger(__name__)

TOGETHER = 64
"""Turn jobs at most that one claim takes. Enough that the claim and its commits cost each little,
and few enough that they are done within some tens of milliseconds: others wait for their rows."""

JobOutcome: TypeAlias = PassOutcome | BatchOutcome | PruneOutcome
"""What became of one pass of a job."""


@dataclass(frozen=True, slots=True)
class NotClaimed:
    """Nothing to do: somebody else works the job or its session, or it is not due any more."""


@dataclass(frozen=True, slots=True)
class Worked:
    """The job was worked on. `due` are the jobs to ring for now, `signals` what gateways were
    told of it. `session` is the owner's id of its session, `job_id` the job's number: another one
    than was rung for where it was another owner's turn. `together` is how many jobs were worked at
    once, this one included."""

    kind: JobKind
    passes: tuple[JobOutcome, ...]
    due: tuple[DueJob, ...]
    signals: tuple[Signal, ...] = ()
    session: str = ""
    job_id: int = 0
    together: int = 1

    @property
    def failed(self) -> Failed | None:
        """The last pass, where it failed and will be tried again."""
        last = self.passes[-1] if self.passes else None
        return last if isinstance(last, Failed) else None


@dataclass(frozen=True, slots=True)
class Crashed:
    """The job raised something that nobody foresaw. `dead` says that it is not tried again, `due`
    are the jobs to ring for now; `signals`, `session` and `job_id` as in `Worked`."""

    error: BaseException
    dead: bool
    retry_ms: int
    due: tuple[DueJob, ...] = ()
    signals: tuple[Signal, ...] = ()
    session: str = ""
    job_id: int = 0


def work(shop: Workshop, job_id: int) -> NotClaimed | Worked | Crashed:
    """Claim this very job and work it.

    Raises `StorageError` when the database fails; the job's lease then ends by itself.
    """
    with shop.database.write() as connection:
        claim = _claim(shop, connection, job_id)
    return NotClaimed() if claim is None else _worked(shop, claim)


def work_in_turn(shop: Workshop, job_id: int) -> NotClaimed | Worked | Crashed:
    """Work the job that a ring for `job_id` is good for (`Rota`); errors as in `work`.

    Where that is another one, the rung job is among those to ring for. A ring for a job that is
    not due any more comes to nothing: every due job has a ring of its own.
    """
    rung = _rung(shop, job_id)
    return NotClaimed() if rung is None else _work_for(shop, rung)


def _rung(shop: Workshop, job_id: int) -> Choice | None:
    # Most turn jobs are taken along with others before their own ring comes.
    if job_id in shop.finished:
        return None
    with shop.database.look() as connection:
        return jobs.rung(connection, shop.database, job_id)


def _work_for(shop: Workshop, rung: Choice) -> NotClaimed | Worked | Crashed:
    job_id = rung.job.id
    with shop.database.write() as connection:
        choice = shop.rota.choose(connection, rung)
        claim = _claim(shop, connection, choice.job.id)
        alike = _claim_alike(shop, connection, claim) if claim is not None else []
    if claim is None:
        # Somebody else was faster, or the session is being worked on.
        return NotClaimed() if choice is rung else work(shop, job_id)
    done = _worked_together(shop, claim, alike) if alike else _worked(shop, claim)
    # Another thread may have taken it along meanwhile.
    if job_id in shop.finished or any(job_id == taken.job_id for taken in (claim, *alike)):
        return done
    return replace(done, due=(rung.job, *done.due))


def _claim(shop: Workshop, connection: Connection, job_id: int) -> Claim | None:
    return jobs.claim(
        connection,
        shop.database,
        job_id,
        holder=shop.holder,
        lease_ms=shop.lease_ms,
        deadline_ms=shop.deadline_ms,
    )


def _claim_alike(shop: Workshop, connection: Connection, claim: Claim) -> list[Claim]:
    """Turn jobs that wait too: what costs time is a claim and a commit, not a decision more.

    None for a job that was claimed before: it may be one that ends its process.
    """
    if claim.kind is not JobKind.TURN or claim.attempt > 1 or claim.owner is None:
        return []
    alike = jobs.claim_alike(
        connection,
        shop.database,
        claim,
        at_most=TOGETHER - 1,
        lease_ms=shop.lease_ms,
        deadline_ms=shop.deadline_ms,
    )
    if alike:
        shop.rota.served(claim.queue, alike[-1].owner or claim.owner)
    return alike


def _worked_together(shop: Workshop, first: Claim, others: Sequence[Claim]) -> Worked | Crashed:
    """Work turn jobs in one transaction, or each alone where that fails."""
    claims = (first, *others)
    shop.reach("claimed")
    begun = time.monotonic()
    try:
        reports = run_turns(shop, claims, within=_span)
    except StorageError:
        raise
    except Exception:  # noqa: BLE001 - one of them raises it again, alone
        log.info("%d turn jobs are worked one by one, since together they failed", len(claims))
        return _one_by_one(shop, first, others)
    seconds = (time.monotonic() - begun) / len(claims)
    for claim in claims:
        tell_run(log, Run(claim, seconds, len(reports[claim.job_id].due)), ())
    return Worked(
        first.kind,
        (),
        tuple(job for report in reports.values() for job in report.due),
        tuple(signal for report in reports.values() for signal in report.signals),
        session=first.session,
        job_id=first.job_id,
        together=len(claims),
    )


def _one_by_one(shop: Workshop, first: Claim, others: Sequence[Claim]) -> Worked | Crashed:
    done = _worked(shop, first)
    due, signals = list(done.due), list(done.signals)
    for claim in others:
        more = _worked(shop, claim)
        due += more.due
        signals += more.signals
    return replace(done, due=tuple(due), signals=tuple(signals))


def _worked(shop: Workshop, claim: Claim) -> Worked | Crashed:
    with _span(claim) as span:
        done = _run_and_tell(shop, claim)
        span.record(passes=len(done.passes) if isinstance(done, Worked) else 0, due=len(done.due))
    return replace(done, session=claim.session, job_id=claim.job_id)


def _span(claim: Claim) -> AbstractContextManager[tracing.Span]:
    return tracing.span(
        f"job.{claim.kind.value}",
        caused_by=claim.correlation,
        run=claim.run,
        event_id=claim.correlation.get("event"),
        session=claim.session,
        trigger=claim.trigger,
        queue=claim.queue,
        attempt=claim.attempt,
    )


def _run_and_tell(shop: Workshop, claim: Claim) -> Worked | Crashed:
    shop.reach("claimed")
    begun = time.monotonic()
    done: Worked | Crashed
    try:
        done = _run(shop, claim)
    except StorageError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, the job's row says so
        done = _crashed(shop, claim, error)
    if claim.queue == BULK_QUEUE:
        refill(shop.database, actor=shop.actor)
        done = replace(done, due=(*done.due, *notify_bulk(shop)))
    _tell(claim, done, time.monotonic() - begun)
    return done


def _tell(claim: Claim, done: Worked | Crashed, seconds: float) -> None:
    run = Run(claim, seconds, len(done.due))
    match done:
        case Worked():
            tell_run(log, run, done.passes)
        case Crashed(error):
            tell_crash(log, run, error, None if done.dead else done.retry_ms)


def _run(shop: Workshop, claim: Claim) -> Worked:
    match claim.kind:
        case JobKind.TURN:
            turn = run_turns(shop, [claim])[claim.job_id]
            return Worked(claim.kind, (), turn.due, turn.signals)
        case JobKind.MICRO:
            micro = run_micro(shop, claim)
            return Worked(claim.kind, micro.outcomes, micro.due)
        case JobKind.BATCH:
            batch = run_batch(shop, claim)
            return Worked(claim.kind, batch.outcomes, batch.due, batch.signals)
        case JobKind.PRUNE:
            pruned = run_prune(shop, claim)
            return Worked(claim.kind, pruned.outcomes, pruned.due)


def _crashed(shop: Workshop, claim: Claim, error: Exception) -> Crashed:
    dead = claim.attempt >= MAX_CRASHES
    delay_ms = shop.retry.delay_ms(claim.attempt, None, shop.rng)
    reason = type(error).__name__
    # The frames without the error's own text, which may quote a conversation.
    trace = "".join(traceback.format_tb(error.__traceback__))
    log.error("run %s (%s) failed: %s\n%s", claim.run, claim.kind.value, reason, trace)
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
                    ended=Ended.CRASHED,
                )
            due = tuple(jobs.due_in_session(connection, shop.database, claim.session_key))
    except FenceLost:
        return Crashed(error, dead=False, retry_ms=0)
    return Crashed(error, dead, delay_ms, due)
