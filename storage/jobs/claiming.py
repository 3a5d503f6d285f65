"""Take a job, or take it away from whoever holds it."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from sqlalchemy import (
    BigInteger,
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

from storage import sessions
from storage.engine import Database, clock
from storage.jobs.changes import next_cause, stronger_came, unheld
from storage.jobs.opening import replace_dead
from storage.jobs.terms import MAX_CRASHES, NOT_PAUSED, SESSION_ID, Claim, JobKind, JobState
from storage.models import RUNNING_JOB, Job, Session, table_of

_J = Job
_CLAIMED = (
    "id",
    "session_key",
    "kind",
    "queue",
    "trigger",
    "strength",
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
    holder: str,
    lease_ms: int,
    deadline_ms: int,
) -> Claim | None:
    """Take a due job; None when it is not due, not there, its session is being worked on, or its
    queue is paused.

    The lease ends by the database's clock and never lies past the deadline.
    """
    given = {
        "job_id": job_id,
        "held_by": holder,
        "lease": min(lease_ms, deadline_ms),
        "deadline": deadline_ms,
    }
    try:
        found = _take(connection, database, given)
        if found is None:
            found = _take_after_rescue(connection, database, given)
    except IntegrityError:
        # Another job of the session runs. The index says so; nothing is wrong.
        connection.rollback()
        return None
    if found is None:
        return None
    return Claim(
        job_id=found.id,
        session_key=found.session_key,
        kind=JobKind(found.kind),
        queue=found.queue,
        trigger=found.trigger,
        strength=found.strength,
        options=json.loads(found.options or "{}"),
        attempt=found.attempt,
        fence=found.fence,
        holder=holder,
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
def _taken(dialect: str, offset_ms: int) -> Any:
    """The statement that takes a job, built once: every job begins with it.

    It takes the session's row before the job's, as everybody does. What came between its snapshot
    and that is seen by the index of running jobs.
    """
    now = clock(dialect, offset_ms)
    jobs, other, named = table_of(Job), table_of(Job).alias("other"), table_of(Job).alias("named")
    whose = select(named.c.session_key).where(named.c.id == bindparam("job_id"))
    of_all = table_of(Session).c
    locked = (
        select(of_all.key)
        .where(of_all.key == whose.scalar_subquery())
        .with_for_update(key_share=True)
        .cte("locked")
    )
    busy = exists().where(other.c.session_key == jobs.c.session_key, sql("other." + RUNNING_JOB))
    return (
        update(jobs)
        .where(
            jobs.c.id == bindparam("job_id"),
            jobs.c.session_key == select(locked.c.key).scalar_subquery(),
            jobs.c.state == JobState.DUE,
            jobs.c.run_at <= now,
            ~busy,
            NOT_PAUSED,
        )
        .values(
            state=JobState.RUNNING,
            attempt=jobs.c.attempt + 1,
            fence=jobs.c.fence + 1,
            holder=bindparam("held_by"),
            lease_until=now + bindparam("lease", type_=BigInteger),
            deadline_at=now + bindparam("deadline", type_=BigInteger),
            again=0,
            updated_at=now,
        )
        .returning(*(jobs.c[name] for name in _CLAIMED), SESSION_ID)
    )


def rescue_expired(connection: Connection, database: Database) -> int:
    """Put every running job whose lease has ended back to due, or to dead after three such ends;
    gives how many there were."""
    return _rescue(connection, database, true())


def fence_out(connection: Connection, database: Database, key: int, kind: JobKind) -> bool:
    """Take a running job of this kind away from its holder and put it back to due; False when
    none runs. What the holder still writes is discarded (ARCHITECTURE.md, *Jobs*)."""
    now = database.now()
    taken = connection.execute(
        update(_J)
        .where(_J.session_key == key, _J.kind == kind, sql(RUNNING_JOB))
        .values(
            state=JobState.DUE,
            fence=_J.fence + 1,
            attempt=_J.attempt - 1,
            run_at=now,
            reason="fenced out by a stronger trigger",
            **unheld(now),
            **next_cause(stronger_came()),
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
                **unheld(now),
                **next_cause(~crashed_often & stronger_came()),
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
