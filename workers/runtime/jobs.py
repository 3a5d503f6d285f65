"""Work one job from claim to end: a given one, or the next one by fair scheduling."""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from types import MappingProxyType

from sqlalchemy import Connection

from storage import jobs
from storage.conversations import sessions
from storage.errors import FenceLost, StorageError
from storage.jobs import MAX_CRASHES, Claim, DueJob, Ended, JobKind
from storage.models import BULK_QUEUE
from storage.outcomes import Outcome
from storage.signals import Signal
from workers.batch.job import batch_pass
from workers.micro.job import micro_pass
from workers.prune.job import prune_pass
from workers.runtime.context import WorkerContext
from workers.runtime.pass_context import PassResult
from workers.runtime.passes import MakePass, run_passes
from workers.runtime.run_log import Run, log_crash, log_run
from workers.scans.recompaction import refill
from workers.scans.reconcile import notify_bulk
from workers.telemetry import tracing
from workers.turn.job import run_turns

log = logging.getLogger(__name__)

TOGETHER = 64
"""Most turn jobs that one claim takes: enough to share the cost of claim and commit, few enough
that their rows are locked for some tens of milliseconds only."""

_PASSES: Mapping[JobKind, MakePass] = MappingProxyType(
    {JobKind.MICRO: micro_pass, JobKind.BATCH: batch_pass, JobKind.PRUNE: prune_pass}
)


@dataclass(frozen=True, slots=True)
class NotClaimed:
    """Nothing to do: another worker has the job or its session, or the job is no longer due."""


@dataclass(frozen=True, slots=True)
class Worked:
    """A job that was worked on.

    `due` are the jobs to notify workers of, `signals` those emitted for gateways. `session` is the
    owner's id of the session. `job_id` differs from the notified job when another owner was next.
    `together` is how many jobs were worked at once, this one included.
    """

    kind: JobKind
    passes: tuple[PassResult, ...]
    due: tuple[DueJob, ...]
    signals: tuple[Signal, ...] = ()
    session: str = ""
    job_id: int = 0
    together: int = 1

    @property
    def failed(self) -> PassResult | None:
        """The last pass, if it failed and will be retried."""
        last = self.passes[-1] if self.passes else None
        return last if last is not None and last.outcome is Outcome.FAILED else None


@dataclass(frozen=True, slots=True)
class Crashed:
    """A job that raised an unexpected error. `dead` says that it is not retried; `due`, `signals`,
    `session` and `job_id` are as in `Worked`."""

    error: BaseException
    dead: bool
    retry_ms: int
    due: tuple[DueJob, ...] = ()
    signals: tuple[Signal, ...] = ()
    session: str = ""
    job_id: int = 0


def work(context: WorkerContext, job_id: int) -> NotClaimed | Worked | Crashed:
    """Claim the given job and work it.

    Raises `StorageError` when the database fails; the job's lease then expires.
    """
    with context.database.write() as connection:
        claim = _claim(context, connection, job_id)
    return NotClaimed() if claim is None else run_job(context, claim)


def work_next(context: WorkerContext, job_id: int) -> NotClaimed | Worked | Crashed:
    """Work one job on a notification for `job_id`, chosen by fair scheduling (`RoundRobin`).

    If that is another job, the notified one is among those to notify workers of. A notification
    for a job that is no longer due does nothing, because every due job has its own. Raises as
    `work` does.
    """
    # Most turn jobs are worked together with others before their own notification arrives.
    if job_id in context.finished:
        return NotClaimed()
    with context.database.look() as connection:
        notified = jobs.notified(connection, context.database, job_id)
    if notified is None:
        return NotClaimed()
    with context.database.write() as connection:
        choice = context.round_robin.choose(connection, notified)
        claim = _claim(context, connection, choice.job.id)
        alike = _claim_alike(context, connection, claim) if claim is not None else []
    if claim is None:
        # Another worker was faster, or the session is locked by another job.
        return NotClaimed() if choice is notified else work(context, job_id)
    done = _run_together(context, claim, alike) if alike else run_job(context, claim)
    # Another thread may have worked it meanwhile.
    if job_id in context.finished or any(job_id == taken.job_id for taken in (claim, *alike)):
        return done
    return replace(done, due=(notified.job, *done.due))


def run_job(context: WorkerContext, claim: Claim) -> Worked | Crashed:
    """Run a claimed job, log its end, and record an unexpected error in its row."""
    context.failpoint("claimed")
    begun = time.monotonic()
    done: Worked | Crashed
    with _span(claim) as span:
        try:
            if claim.kind is JobKind.TURN:
                turn = run_turns(context, [claim])[claim.job_id]
                done = Worked(claim.kind, (), turn.due, turn.signals)
            else:
                ran = run_passes(context, claim, _PASSES[claim.kind])
                due, signals = ran.due or (), tuple(ran.signals)
                done = Worked(claim.kind, tuple(ran.results), due, signals)
        except StorageError:
            raise
        except Exception as error:  # noqa: BLE001 - any error ends up in the job's row
            done = _record_crash(context, claim, error)
        if claim.queue == BULK_QUEUE:
            refill(context.database, actor=context.actor)
            done = replace(done, due=(*done.due, *notify_bulk(context)))
        run = Run(claim, time.monotonic() - begun, len(done.due))
        if isinstance(done, Crashed):
            log_crash(log, run, done.error, None if done.dead else done.retry_ms)
        else:
            log_run(log, run, done.passes)
        passes = len(done.passes) if isinstance(done, Worked) else 0
        span.record(passes=passes, due=len(done.due))
    return replace(done, session=claim.session, job_id=claim.job_id)


def _claim(context: WorkerContext, connection: Connection, job_id: int) -> Claim | None:
    return jobs.claim(
        connection,
        context.database,
        job_id,
        lease_owner=context.lease_owner,
        lease_ms=context.lease_ms,
        deadline_ms=context.deadline_ms,
    )


def _claim_alike(context: WorkerContext, connection: Connection, claim: Claim) -> list[Claim]:
    """Claim other waiting turn jobs too: one more decision costs far less than a claim and commit.

    A job that was claimed before is worked alone, because it may be the one that kills its process.
    """
    if claim.kind is not JobKind.TURN or claim.attempt > 1 or claim.owner is None:
        return []
    alike = jobs.claim_alike(
        connection,
        context.database,
        claim,
        at_most=TOGETHER - 1,
        lease_ms=context.lease_ms,
        deadline_ms=context.deadline_ms,
    )
    if alike:
        context.round_robin.served(claim.queue, alike[-1].owner or claim.owner)
    return alike


def _run_together(
    context: WorkerContext, first: Claim, others: Sequence[Claim]
) -> Worked | Crashed:
    """Run turn jobs in one transaction, or one by one if that fails."""
    claims = (first, *others)
    context.failpoint("claimed")
    begun = time.monotonic()
    try:
        reports = run_turns(context, claims, within=_span)
    except StorageError:
        raise
    except Exception:  # noqa: BLE001 - the job at fault raises it again on its own
        log.info("%d turn jobs failed together; running them one by one", len(claims))
        return _run_one_by_one(context, first, others)
    seconds = (time.monotonic() - begun) / len(claims)
    for claim in claims:
        log_run(log, Run(claim, seconds, len(reports[claim.job_id].due)), ())
    return Worked(
        first.kind,
        (),
        tuple(job for report in reports.values() for job in report.due),
        tuple(signal for report in reports.values() for signal in report.signals),
        session=first.session,
        job_id=first.job_id,
        together=len(claims),
    )


def _run_one_by_one(
    context: WorkerContext, first: Claim, others: Sequence[Claim]
) -> Worked | Crashed:
    done = run_job(context, first)
    due, signals = list(done.due), list(done.signals)
    for claim in others:
        more = run_job(context, claim)
        due += more.due
        signals += more.signals
    return replace(done, due=tuple(due), signals=tuple(signals))


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


def _record_crash(context: WorkerContext, claim: Claim, error: Exception) -> Crashed:
    """Release the job for another attempt, or dead-letter it after too many."""
    database, dead = context.database, claim.attempt >= MAX_CRASHES
    delay_ms = context.retry.delay_ms(claim.attempt, None, context.rng)
    reason = type(error).__name__
    # The frames without the error's own text, which may quote a conversation.
    trace = "".join(traceback.format_tb(error.__traceback__))
    log.error("run %s (%s) failed: %s\n%s", claim.run, claim.kind.value, reason, trace)
    try:
        with database.write() as connection:
            sessions.lock(connection, claim.session_key)
            if dead:
                jobs.dead_letter(connection, database, claim, reason=reason, trace=trace)
            else:
                jobs.release(
                    connection,
                    database,
                    claim,
                    delay_ms=delay_ms,
                    reason=reason,
                    ended=Ended.CRASHED,
                )
            due = tuple(jobs.due_in_session(connection, database, claim.session_key))
    except FenceLost:
        return Crashed(error, dead=False, retry_ms=0)
    return Crashed(error, dead, delay_ms, due)
