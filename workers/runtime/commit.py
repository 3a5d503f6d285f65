"""The transaction that ends a pass of any kind: all of its writes, or none.

It locks the session, checks the fence and the revision that the plan was made on, writes the rows
of the pass, and records attempt, audit entry and signals. In the same transaction the job
continues, is finished, or is released. Apart from crashes, no job ends anywhere else.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeAlias

from sqlalchemy import Connection

from storage import answers, attempts, audit, jobs, signals
from storage.attempts import AttemptRecord
from storage.audit import AuditAction
from storage.conversations import cursors, sessions
from storage.conversations.cursors import CursorName
from storage.conversations.sessions import SessionRecord
from storage.engine import Database
from storage.jobs import Claim, DueJob, Ended, JobKind
from storage.outcomes import Outcome
from storage.signals import SignalKind
from workers.policy.threshold import NoUsableWindowError, session_threshold
from workers.runtime.answer_store import BATCH_PREFIX
from workers.runtime.pass_context import PassContext, PassResult
from workers.telemetry import tracing

ALWAYS_LOUD = frozenset(
    {SignalKind.STUCK, SignalKind.EXHAUSTED, SignalKind.RESET, SignalKind.COMPACT_THREAD}
)
"""Signals that a person has to act on. All others are quiet unless `progress_notices` is on."""

AUDITED: Mapping[Outcome, AuditAction] = MappingProxyType(
    {
        Outcome.ABSORBED: AuditAction.MICRO_COMPACTED,
        Outcome.DEFRAGMENTED: AuditAction.MICRO_COMPACTED,
        Outcome.COMPACTED: AuditAction.COMPACTED,
        Outcome.PLACEHOLDER_REPLACED: AuditAction.COMPACTED,
        Outcome.PLACEHOLDER: AuditAction.COMPACTED,
        Outcome.PRUNED: AuditAction.PRUNED,
        Outcome.PRUNED_ENOUGH: AuditAction.PRUNED,
        Outcome.RESET: AuditAction.RESET,
    }
)
"""Audit entries of the outcomes that change the live view."""


class StaleError(Exception):
    """The plan no longer fits the session. Its transaction is rolled back."""


@dataclass(frozen=True, slots=True)
class Keep:
    """The job stays with this worker as it is."""


@dataclass(frozen=True, slots=True)
class Continue:
    """The job continues with its next pass; attempts and deadline start over."""


@dataclass(frozen=True, slots=True)
class Finish:
    """The job is done; its stored answers are dropped."""


@dataclass(frozen=True, slots=True)
class Release:
    """The job is due again in `delay_ms`. `tries` is the count of spent attempts so far; None
    leaves it unchanged."""

    delay_ms: int
    reason: str | None
    ended: Ended = Ended.FORESEEN
    tries: int | None = None


@dataclass(frozen=True, slots=True)
class ContinueAs:
    """The job is due again in `delay_ms`, for another trigger."""

    queue: str
    trigger: str
    priority: int
    delay_ms: int


JobEnd: TypeAlias = Keep | Continue | Finish | Release | ContinueAs
"""What a commit does with the job."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """The open transaction of a commit, with the session locked. `before` is the session as it was
    before the pass."""

    run: PassContext
    connection: Connection
    before: SessionRecord

    @property
    def database(self) -> Database:
        return self.run.database

    @property
    def key(self) -> int:
        return self.before.key


@dataclass(frozen=True, slots=True)
class Change:
    """What the body of a commit wrote, and what remains to be written.

    `after` is the session if it was changed. `attempt` holds figures of the attempt besides those
    known for every pass; None records no attempt.
    """

    result: PassResult
    job: JobEnd
    after: SessionRecord | None = None
    attempt: Mapping[str, Any] | None = field(default_factory=dict)
    signals: tuple[tuple[SignalKind, Mapping[str, Any]], ...] = ()


def commit(
    run: PassContext,
    body: Callable[[Transaction], Change],
    *,
    revision: int | None = None,
    failpoint: str = "after-commit",
) -> PassResult:
    """Write a pass in one transaction: `body` writes the rows, the rest follows from its result.

    Raises:
        FenceLost: another worker owns the job now.
        StaleError: the session is no longer at `revision`, or `body` found other rows.
    """
    context, claim = run.context, run.claim
    with tracing.span("commit"), context.database.write() as connection:
        before = sessions.lock(connection, claim.session_key)
        jobs.check_fence(connection, claim)
        if revision is not None and before.revision != revision:
            raise StaleError
        change = body(Transaction(run, connection, before))
        if change.attempt is not None:
            _record(run, connection, before, change)
        emitted = [
            signals.emit(
                connection,
                context.database,
                claim.session_key,
                kind,
                facts,
                quiet=_quiet(run, kind),
            )
            for kind, facts in change.signals
        ]
        due = _end_job(run, connection, change.job)
        context.failpoint("before-commit")
    run.job.signals.extend(emitted)
    run.job.due = due
    context.failpoint(failpoint)
    return change.result


def emit_alone(run: PassContext, kind: SignalKind, facts: Mapping[str, Any]) -> None:
    """Emit a signal in its own transaction, for progress that changes nothing."""
    with run.database.write() as connection:
        emitted = signals.emit(
            connection, run.database, run.key, kind, facts, quiet=_quiet(run, kind)
        )
    run.job.signals.append(emitted)


def hand_back(run: PassContext) -> None:
    """Release the job at once without spending an attempt."""
    end = Release(0, None, Ended.HANDED_BACK)
    result = PassResult(Outcome.HANDED_BACK)
    commit(run, lambda _: Change(result, end, attempt=None))


def view_facts(before: SessionRecord, after: SessionRecord) -> dict[str, int]:
    """Return the facts that a signal about a changed view carries."""
    return {
        "messages_before": before.live_messages,
        "messages_after": after.live_messages,
        "tokens_before": before.live_tokens,
        "tokens_after": after.live_tokens,
    }


def _end_job(run: PassContext, connection: Connection, end: JobEnd) -> tuple[DueJob, ...] | None:
    """Write how the job ends or continues; if this worker is done with it, return the jobs due in
    its session."""
    context, claim, database = run.context, run.claim, run.database
    match end:
        case Keep():
            return None
        case Continue():
            jobs.proceed(
                connection,
                database,
                claim,
                lease_ms=context.lease_ms,
                deadline_ms=context.deadline_ms,
            )
            return None
        case Finish():
            _drop_answers(connection, claim)
            jobs.finish(connection, database, claim)
        case Release(delay_ms, reason, ended, tries):
            jobs.release(
                connection,
                database,
                claim,
                delay_ms=delay_ms,
                reason=reason,
                ended=ended,
                tries=tries,
            )
        case ContinueAs(queue, trigger, priority, delay_ms):
            jobs.go_on_as(
                connection,
                database,
                claim,
                queue=queue,
                trigger=trigger,
                priority=priority,
                delay_ms=delay_ms,
            )
    return tuple(jobs.due_in_session(connection, database, claim.session_key))


def _drop_answers(connection: Connection, claim: Claim) -> None:
    """Drop the stored answers of this kind of job, those for stale plans included."""
    match claim.kind:
        case JobKind.MICRO:
            answers.drop_all(connection, claim.session_key, but=BATCH_PREFIX)
        case JobKind.BATCH:
            answers.drop_all(connection, claim.session_key, prefix=BATCH_PREFIX)
        case _:
            pass


def _quiet(run: PassContext, kind: SignalKind) -> bool:
    return kind not in ALWAYS_LOUD and not run.settings.progress_notices


def _record(
    run: PassContext, connection: Connection, before: SessionRecord, change: Change
) -> None:
    """Record the attempt and, if the view was changed, an audit entry."""
    claim, cost, outcome = run.claim, run.cost, change.result.outcome
    after = change.after or before
    figures = dict(change.attempt or {})
    if "cursor" not in figures:
        figures["cursor"] = cursors.read(connection, before.key, CursorName.MICRO)
    attempts.record(
        connection,
        run.database,
        before.key,
        AttemptRecord(
            job_id=claim.job_id,
            kind=claim.kind,
            trigger=claim.trigger,
            outcome=outcome,
            messages_before=before.live_messages,
            messages_after=after.live_messages,
            tokens_before=before.live_tokens,
            tokens_after=after.live_tokens,
            passes=after.passes,
            tokens_saved=after.tokens_saved,
            threshold_tokens=_threshold(run, after),
            requests=cost.requests,
            prompt_tokens=cost.prompt_tokens,
            completion_tokens=cost.completion_tokens,
            total_ms=int(1000 * (time.monotonic() - run.started)),
            model_ms=cost.model_ms,
            **figures,
        ),
    )
    if (action := AUDITED.get(outcome)) is not None:
        audit.record(
            connection,
            run.database,
            action,
            actor=run.context.actor,
            owner=after.owner,
            session=after.id,
            facts={
                "outcome": outcome,
                "trigger": claim.trigger,
                "tokens_before": before.live_tokens,
                "tokens_after": after.live_tokens,
                "summary": figures.get("summary_id"),
                "model": figures.get("model", ""),
            },
        )


def _threshold(run: PassContext, session: SessionRecord) -> int:
    try:
        return session_threshold(session, run.settings).tokens
    except NoUsableWindowError:
        return 0
