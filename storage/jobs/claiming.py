"""Take a job, or take it away from whoever holds it."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import Connection, case, exists, func, select, true, update
from sqlalchemy import text as sql
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import aliased

from storage import sessions
from storage.engine import Database
from storage.jobs.changes import next_cause, stronger_came, unheld
from storage.jobs.opening import replace_dead
from storage.jobs.terms import MAX_CRASHES, NOT_PAUSED, Claim, JobKind, JobState
from storage.models import RUNNING_JOB, Job

_J = Job


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
    key = connection.execute(select(_J.session_key).where(_J.id == job_id)).scalar_one_or_none()
    if key is None:
        return None
    session = sessions.lock(connection, key)
    _rescue(connection, database, _J.session_key == key)
    now = database.now()
    other = aliased(_J, name="other")
    busy = exists().where(other.session_key == key, sql("other." + RUNNING_JOB))
    try:
        found = (
            connection.execute(
                update(_J)
                .where(
                    _J.id == job_id, _J.state == JobState.DUE, _J.run_at <= now, ~busy, NOT_PAUSED
                )
                .values(
                    state=JobState.RUNNING,
                    attempt=_J.attempt + 1,
                    fence=_J.fence + 1,
                    holder=holder,
                    lease_until=now + min(lease_ms, deadline_ms),
                    deadline_at=now + deadline_ms,
                    again=0,
                    updated_at=now,
                )
                .returning(*_J.__table__.columns)
            )
            .mappings()
            .first()
        )
    except IntegrityError:
        # Another job of the session runs. The index says so; nothing is wrong.
        connection.rollback()
        return None
    if found is None:
        return None
    return Claim(
        job_id=found["id"],
        session_key=key,
        kind=JobKind(found["kind"]),
        queue=found["queue"],
        trigger=found["trigger"],
        strength=found["strength"],
        options=json.loads(found["options"] or "{}"),
        attempt=found["attempt"],
        fence=found["fence"],
        holder=holder,
        tries=found["tries"],
        reason=found["reason"],
        session=session.id,
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
