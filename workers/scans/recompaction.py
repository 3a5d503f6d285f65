"""Bulk re-compaction: enqueue the sessions of a run a few at a time, and record each outcome.

A worker whose bulk job has ended, the reconciler, or a person who watches refills it. Each step is
a transaction of its own, so a run may be interrupted anywhere and goes on where it was; no session
is enqueued twice.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum, auto

from sqlalchemy import Connection

from storage import attempts, audit, bulk_runs, jobs
from storage.audit import AuditAction
from storage.bulk_runs import Item, Run, RunState, SessionResult, Tally
from storage.conversations import sessions
from storage.engine import Database
from storage.errors import SessionNotFound, StorageError
from storage.jobs import JobKind, JobState, job_records
from storage.models import BULK_QUEUE
from storage.outcomes import Outcome
from workers.batch.placeholders import ensure_replacement
from workers.policy.triggers import RULES, Trigger

BURST_MS = 10_000
"""How far a run may catch up with its pace: nothing refills it more often for certain."""

GOOD = frozenset(
    {
        Outcome.COMPACTED,
        Outcome.PLACEHOLDER_REPLACED,
        Outcome.PRUNED_ENOUGH,
        Outcome.NOTHING_DUE,
    }
)
"""Outcomes with which a session is as small as it gets."""

DEAD = "dead"
"""The outcome of a session whose job was given up."""

UNTOUCHED = "untouched"
"""The outcome of a session whose job was closed without a try, such as one that was withdrawn."""


class RunStateError(StorageError):
    """The run's state does not allow the request. Nothing was changed."""


class _Enqueued(Enum):
    YES = auto()
    TAKEN = auto()
    NOT_NOW = auto()


def refill(database: Database, *, actor: str) -> int:
    """Go on with the run that is under way; returns how many sessions were enqueued now.

    Records the outcome of those that are done, and enqueues the next ones, within the run's bounds.
    They are not notified (see `reconcile.notify_bulk`). Ends the run, in the name of `actor`, when
    the last one is settled. Reads one row where no run is under way.
    """
    with database.read() as connection:
        run = bulk_runs.running(connection)
    if run is None:
        return 0
    settle(database, run.id)
    enqueued = 0
    while True:
        with database.read() as connection:
            keys = bulk_runs.next_waiting(connection, run.id, limit=1)
        if not keys:
            _end(database, run.id, actor)
            return enqueued
        match _enqueue(database, run.id, keys[0]):
            case _Enqueued.YES:
                enqueued += 1
            case _Enqueued.NOT_NOW:
                return enqueued
            case _Enqueued.TAKEN:
                pass


def settle(database: Database, run_id: int) -> int:
    """Record the outcome of the run's sessions whose jobs are done; returns how many."""
    with database.read() as connection:
        over = bulk_runs.finished(
            connection, run_id, replaces=Trigger.REPLACE_PLACEHOLDER, trigger=Trigger.RECOMPACT
        )
        outcomes = [(item, _outcome_of(connection, database, item)) for item in over]
    if not outcomes:
        return 0
    with database.write() as connection:
        bulk_runs.lock(connection, run_id)
        return sum(bulk_runs.settle(connection, database, *one) for one in outcomes)


def stop(database: Database, run_id: int, *, actor: str) -> int:
    """Enqueue no more sessions; returns how many that were enqueued wait again now.

    What a worker has begun is finished. Raises `RunStateError` where the run is not running.
    """
    with database.write() as connection:
        _in_state(bulk_runs.lock(connection, run_id), RunState.RUNNING)
        bulk_runs.set_state(connection, database, run_id, RunState.STOPPED)
        _audit(connection, database, run_id, AuditAction.BULK_STOPPED, actor)
        open_ones = bulk_runs.open_items(connection, run_id)
    back = sum(_take_back(database, item) for item in open_ones)
    settle(database, run_id)
    return back


def resume(database: Database, run_id: int, *, actor: str, again: Collection[str] = ()) -> int:
    """Let a run go on; returns how many sessions wait again.

    `again` are outcomes of sessions that are to be tried once more; with them a run that is done
    may go on too.

    Raises:
        RunStateError: it is running, or done with nothing to try again, or another run is running.
    """
    settle(database, run_id)
    with database.write() as connection:
        other = bulk_runs.running(connection)
        if other is not None and other.id != run_id:
            raise RunStateError(
                f"run {other.id} is under way; stop it first (`afterturn recompact stop`)"
            )
        run = bulk_runs.lock(connection, run_id)
        waiting = bulk_runs.ask_again(connection, run_id, again) if again else 0
        _in_state(run, RunState.STOPPED, *([RunState.DONE] if waiting else []))
        bulk_runs.set_state(connection, database, run_id, RunState.RUNNING)
        _audit(connection, database, run_id, AuditAction.BULK_RESUMED, actor)
    return waiting


def figures(tally: Tally) -> dict[str, object]:
    """Return a run's figures as the audit trail records them."""
    return {
        "sessions": tally.waiting + tally.asked + tally.settled,
        "settled": tally.settled,
        "outcomes": dict(tally.outcomes),
        "tokens_saved": tally.tokens_saved,
        "requests": tally.requests,
    }


def _enqueue(database: Database, run_id: int, key: int) -> _Enqueued:
    """Enqueue the job of a session, unless the run has enough under way or its pace forbids it."""
    with database.write() as connection:
        try:
            sessions.lock(connection, key)
        except SessionNotFound:
            return _Enqueued.TAKEN
        run = bulk_runs.lock(connection, run_id)
        under_way = bulk_runs.under_way(connection, run_id)
        early = bulk_runs.left_ms(connection, database, run) > 0
        if run.state is not RunState.RUNNING or under_way >= run.at_once or early:
            return _Enqueued.NOT_NOW
        after = attempts.last_id(connection, key)
        job = jobs.enqueue(
            connection,
            database,
            key,
            kind=JobKind.BATCH,
            queue=BULK_QUEUE,
            trigger=Trigger.RECOMPACT,
            priority=RULES[Trigger.RECOMPACT].priority,
        )
        item = Item(run_id, key, job.id, after)
        if not bulk_runs.note_asked(
            connection, database, item, burst_ms=BURST_MS, pace_ms=run.pace_ms
        ):
            connection.rollback()
            return _Enqueued.TAKEN
    return _Enqueued.YES


def _take_back(database: Database, item: Item) -> bool:
    """Withdraw a session's job that no worker has begun."""
    with database.write() as connection:
        sessions.lock(connection, item.session_key)
        bulk_runs.lock(connection, item.run_id)
        if not jobs.withdraw(connection, database, item.job_id, trigger=Trigger.RECOMPACT):
            return False
        # One that waits for its real summary goes on waiting.
        ensure_replacement(connection, database, item.session_key)
        return bulk_runs.put_back(connection, item)


def _end(database: Database, run_id: int, actor: str) -> None:
    with database.write() as connection:
        run = bulk_runs.lock(connection, run_id)
        tally = bulk_runs.tally(connection, run_id)
        if run.state is not RunState.RUNNING or tally.waiting or tally.asked:
            return
        bulk_runs.set_state(connection, database, run_id, RunState.DONE)
        _audit(connection, database, run_id, AuditAction.BULK_ENDED, actor)


def _outcome_of(connection: Connection, database: Database, item: Item) -> SessionResult:
    tries = attempts.of_job(connection, item.session_key, item.job_id, after=item.after_attempt)
    state = job_records.standing(connection, database, item.job_id)
    dead = state is not None and state.state is JobState.DEAD
    if not tries:
        return SessionResult(DEAD if dead else UNTOUCHED)
    last = tries[-1]
    return SessionResult(
        outcome=DEAD if dead else last.outcome,
        error_class=last.error_class,
        tokens_before=tries[0].tokens_before,
        tokens_after=last.tokens_after,
        requests=sum(one.requests for one in tries),
        prompt_tokens=sum(one.prompt_tokens or 0 for one in tries),
        completion_tokens=sum(one.completion_tokens or 0 for one in tries),
    )


def _in_state(run: Run, *states: RunState) -> None:
    if run.state not in states:
        raise RunStateError(f"run {run.id} is {run.state.value}")


def _audit(
    connection: Connection, database: Database, run_id: int, action: AuditAction, actor: str
) -> None:
    run = bulk_runs.fetch(connection, run_id)
    tally = bulk_runs.tally(connection, run_id)
    audit.record(
        connection,
        database,
        action,
        actor=actor,
        owner=run.owner,
        facts={"run": run_id, **figures(tally)},
    )
