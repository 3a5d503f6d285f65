"""Take a job, or take it away from its lease owner."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Row,
    bindparam,
    case,
    exists,
    func,
    select,
    true,
    update,
)
from sqlalchemy import text as sql
from sqlalchemy.exc import IntegrityError

from storage.conversations import sessions
from storage.engine import Database, clock
from storage.jobs.enqueueing import replace_dead
from storage.jobs.terms import (
    MAX_CRASHES,
    NOT_PAUSED,
    SESSION_ID,
    Claim,
    JobKind,
    JobState,
    next_cause,
    priority_raised,
    without_lease,
)
from storage.models import NOTIFIED_JOB, RUNNING_JOB, Job, Session, table_of
from storage.types import among

_J = Job
_JOBS, _OTHER = table_of(Job), table_of(Job).alias("other")
_BUSY = exists().where(_OTHER.c.session_key == _JOBS.c.session_key, sql(f"other.{RUNNING_JOB}"))
_CLAIMED = (
    "id",
    "session_key",
    "kind",
    "queue",
    "trigger",
    "priority",
    "options",
    "attempt",
    "fence",
    "tries",
    "reason",
    "owner",
    "correlation",
)


def claim(
    connection: Connection,
    database: Database,
    job_id: int,
    *,
    lease_owner: str,
    lease_ms: int,
    deadline_ms: int,
) -> Claim | None:
    """Take a due job; None when it is not due, does not exist, its session is being worked on, or
    its queue is paused.

    The lease ends by the database's clock and never lies past the deadline.
    """
    given = {
        "job_id": job_id,
        "held_by": lease_owner,
        "lease": min(lease_ms, deadline_ms),
        "deadline": deadline_ms,
    }
    if database.dialect == "postgresql":  # SQLite has one writer at a time.
        connection.execute(_session_of_job(), {"job_id": job_id})
    try:
        found = _take(connection, database, given)
        if found is None:
            found = _take_after_rescue(connection, database, given)
    except IntegrityError:
        # Another job of the session runs. The index refuses this one; nothing is wrong.
        connection.rollback()
        return None
    return None if found is None else _claim_of(found, lease_owner)


def claim_alike(
    connection: Connection,
    database: Database,
    like: Claim,
    *,
    at_most: int,
    lease_ms: int,
    deadline_ms: int,
) -> list[Claim]:
    """Take, for the same lease owner, jobs that wait like the claimed one: of its queue and kind,
    from its owner on in the order of names, in which they are returned.

    Leaves out those that are locked, and those that were claimed before: a job that ends its
    process must be found alone.
    """
    waiting = connection.execute(
        _waiting_alike(),
        {"queue": like.queue, "kind": like.kind, "from_owner": like.owner, "at_most": at_most},
    )
    ids = [row.id for row in waiting]
    if not ids:
        return []
    given = {
        "ids": ids,
        "held_by": like.lease_owner,
        "lease": min(lease_ms, deadline_ms),
        "deadline": deadline_ms,
    }
    taken = connection.execute(_taken_alike(database.dialect, database.offset_ms), given)
    place = {job_id: number for number, job_id in enumerate(ids)}
    return sorted(
        (_claim_of(row, like.lease_owner) for row in taken), key=lambda one: place[one.job_id]
    )


def _claim_of(found: Row[Any], lease_owner: str) -> Claim:
    return Claim(
        job_id=found.id,
        session_key=found.session_key,
        kind=JobKind(found.kind),
        queue=found.queue,
        trigger=found.trigger,
        priority=found.priority,
        options=json.loads(found.options or "{}"),
        attempt=found.attempt,
        fence=found.fence,
        lease_owner=lease_owner,
        tries=found.tries,
        reason=found.reason,
        session=found.session_id,
        owner=found.owner,
        correlation=json.loads(found.correlation or "{}"),
    )


def _take(connection: Connection, database: Database, given: dict[str, Any]) -> Row[Any] | None:
    statement = _taken(database.dialect, database.offset_ms)
    row: Row[Any] | None = connection.execute(statement, given).first()
    return row


def _take_after_rescue(
    connection: Connection, database: Database, given: dict[str, Any]
) -> Row[Any] | None:
    """Take the job where the session's silent worker kept it from being taken."""
    key = connection.execute(
        select(_J.session_key).where(_J.id == given["job_id"])
    ).scalar_one_or_none()
    if key is None:
        return None
    sessions.lock(connection, key)
    if not _rescue(connection, database, _J.session_key == key):
        return None
    return _take(connection, database, given)


@cache
def _session_of_job() -> Any:
    """Return the statement that locks the row of a job's session, built once: every claim begins
    with it.

    It comes before the job's row, as everywhere. The statement that takes the job begins after the
    wait and sees what was stored meanwhile, so no job is taken from a queue that was paused by
    then.
    """
    sessions = table_of(Session).c
    return select(sessions.key).where(sessions.key == _whose()).with_for_update(key_share=True)


@cache
def _taken(dialect: str, offset_ms: int) -> Any:
    """Return the statement that takes a job, built once."""
    return _taking(clock(dialect, offset_ms)).where(
        _JOBS.c.id == bindparam("job_id"),
        # Materialized, so that the session's running job is found by its key.
        _JOBS.c.session_key == _whose(),
    )


def _whose() -> Any:
    named = table_of(Job).alias("named").c
    return select(named.session_key).where(named.id == bindparam("job_id")).scalar_subquery()


@cache
def _waiting_alike() -> Any:
    """Return the statement that locks the rows of sessions and jobs which are not locked yet."""
    return (
        select(_JOBS.c.id)
        .join(table_of(Session), table_of(Session).c.key == _JOBS.c.session_key)
        .where(
            sql(f"jobs.{NOTIFIED_JOB}"),
            _JOBS.c.queue == bindparam("queue"),
            _JOBS.c.kind == bindparam("kind"),
            _JOBS.c.owner >= bindparam("from_owner"),
            _JOBS.c.attempt == 0,
            ~_BUSY,
        )
        .order_by(_JOBS.c.owner, _JOBS.c.priority, _JOBS.c.run_at, _JOBS.c.id)
        .limit(bindparam("at_most"))
        .with_for_update(key_share=True, skip_locked=True)
    )


@cache
def _taken_alike(dialect: str, offset_ms: int) -> Any:
    """Return the statement that takes jobs whose rows and sessions' rows are locked."""
    return _taking(clock(dialect, offset_ms)).where(among(_JOBS.c.id, "ids", dialect))


def _taking(now: ColumnElement[int]) -> Any:
    return (
        update(_JOBS)
        .where(_JOBS.c.state == JobState.DUE, _JOBS.c.run_at <= now, ~_BUSY, NOT_PAUSED)
        .values(
            state=JobState.RUNNING,
            attempt=_JOBS.c.attempt + 1,
            fence=_JOBS.c.fence + 1,
            lease_owner=bindparam("held_by"),
            lease_until=now + bindparam("lease", type_=BigInteger),
            deadline_at=now + bindparam("deadline", type_=BigInteger),
            again=0,
            updated_at=now,
        )
        .returning(*(_JOBS.c[name] for name in _CLAIMED), SESSION_ID)
    )


def rescue_expired(connection: Connection, database: Database) -> int:
    """Put every running job whose lease has ended back to due, or to dead after three such ends;
    return how many there were."""
    return _rescue(connection, database, true())


def fence_out(connection: Connection, database: Database, key: int, kind: JobKind) -> bool:
    """Take a running job of this kind away from its lease owner and put it back to due; False when
    none runs. Later writes of that lease owner are discarded."""
    now = database.now()
    taken = connection.execute(
        update(_J)
        .where(_J.session_key == key, _J.kind == kind, sql(RUNNING_JOB))
        .values(
            state=JobState.DUE,
            fence=_J.fence + 1,
            attempt=_J.attempt - 1,
            run_at=now,
            reason="fenced out by a trigger of higher priority",
            **without_lease(now),
            **next_cause(priority_raised()),
        )
    )
    return taken.rowcount > 0


def _rescue(connection: Connection, database: Database, which: Any) -> int:
    now = database.now()
    crashed_often = _J.attempt >= MAX_CRASHES
    ended = connection.execute(
        update(_J)
        .where(which, sql(RUNNING_JOB), _J.lease_until <= database.moment())
        .values(
            state=case((crashed_often, JobState.DEAD), else_=JobState.DUE),
            reason="the worker went silent",
            failed_first_at=func.coalesce(_J.failed_first_at, now),
            failed_last_at=now,
            run_at=now,
            **{
                **without_lease(now),
                **next_cause(~crashed_often & priority_raised()),
                "again": case((crashed_often, _J.again), else_=0),
            },
        )
        .returning(*_J.__table__.columns)
    )
    rows = ended.mappings().all()
    for row in rows:
        if row["state"] == JobState.DEAD:
            replace_dead(connection, database, row)
    return len(rows)
