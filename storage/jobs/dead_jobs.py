"""Jobs that were given up, for operators: list, retry and drop them.

A dead job is closed, never deleted: scans skip work whose job was given up, so they would enqueue
it again once its row was gone.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, func, literal, select, update
from sqlalchemy import text as sql

from storage.engine import Database
from storage.jobs import DueJob, JobKind, JobState, enqueue
from storage.models import DEAD_JOB, FAILED_JOB, Job, Session

DROPPED = "dropped"
"""The beginning of the reason of a closed job that is not to be worked again."""
RETRIED = "retried as job"
"""The same for one whose work another job does."""


@dataclass(frozen=True, slots=True)
class DeadJob:
    """A job that was given up. `session` is the owner's id of its session; times are milliseconds
    since 1970 (UTC). `kind` is text, since a newer version may have enqueued it. `trace` has frames
    and never the error's own text; it is empty where the worker went silent."""

    id: int
    owner: str
    session: str
    kind: str
    queue: str
    trigger: str
    priority: int
    options: Mapping[str, Any]
    attempt: int
    tries: int
    reason: str
    trace: str
    created_at: int
    failed_first_at: int
    failed_last_at: int


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason why jobs are dead, and how many."""

    text: str
    jobs: int


@dataclass(frozen=True, slots=True)
class Retried:
    """A dead job, and the open job that does its work now."""

    dead: int
    job: DueJob


def page(
    connection: Connection,
    *,
    kind: str | None = None,
    reason: str | None = None,
    owner: str | None = None,
    before: int | None = None,
    limit: int,
) -> list[DeadJob]:
    """Return dead jobs with ids below `before`, newest first; `kind`, `reason` (the exact text) and
    `owner` restrict them."""
    wanted = _DEAD
    if kind is not None:
        wanted = wanted.where(Job.kind == kind)
    if reason is not None:
        wanted = wanted.where(func.coalesce(Job.reason, "") == reason)
    if owner is not None:
        wanted = wanted.where(Session.owner == owner)
    if before is not None:
        wanted = wanted.where(Job.id < before)
    rows = connection.execute(wanted.order_by(Job.id.desc()).limit(limit))
    return [_read(row) for row in rows]


def find(connection: Connection, job_id: int) -> DeadJob | None:
    """Return the dead job with this id; None where there is none, or it is not dead."""
    row = connection.execute(_DEAD.where(Job.id == job_id)).first()
    return None if row is None else _read(row)


def reasons(connection: Connection) -> list[Reason]:
    """Return why jobs are dead, the most frequent reason first."""
    reason, jobs = func.coalesce(Job.reason, ""), func.count()
    rows = connection.execute(
        select(reason, jobs).where(sql(DEAD_JOB)).group_by(reason).order_by(jobs.desc(), reason)
    )
    return [Reason(text, number) for text, number in rows]


def retry(connection: Connection, database: Database, ids: Collection[int]) -> list[Retried]:
    """Enqueue the work of dead jobs again and close them, in the order of their ids.

    Where a job of the kind is open in the session already, that one does the work, with the
    trigger of higher priority. Leaves out jobs that are not dead, that another process has locked,
    and those of a kind that this version does not know. Takes at most some hundred at once; the
    next reconciler notifies workers of them.
    """
    dead = [one for one in _take(connection, ids) if one.kind in list(JobKind)]
    made: dict[int, DueJob] = {}
    # In the order of every caller that enqueues many jobs, so that two never deadlock.
    for one in sorted(dead, key=lambda one: (one.session_key, one.id)):
        made[one.id] = job = enqueue(
            connection,
            database,
            one.session_key,
            kind=JobKind(one.kind),
            queue=one.queue,
            trigger=one.trigger,
            priority=one.priority,
            options=json.loads(one.options or "{}"),
        )
        _close(connection, database, [one.id], f"{RETRIED} {job.id}")
    return [Retried(one.id, made[one.id]) for one in dead]


def drop(connection: Connection, database: Database, ids: Collection[int]) -> list[int]:
    """Close dead jobs without doing their work; return the ids of those that were closed.

    Leaves out jobs that are not dead, and those that another process has locked. Their sessions
    go on with the next turn.
    """
    dead = [one.id for one in _take(connection, ids)]
    _close(connection, database, dead, DROPPED)
    return dead


def close_replaced(
    connection: Connection, database: Database, key: int, kind: JobKind, *, by: int
) -> None:
    """Close the dead jobs of a session whose work job `by` does now."""
    mine = (Job.session_key == key, Job.kind == kind, sql(FAILED_JOB))
    dead = connection.execute(select(Job.id).where(*mine, sql(DEAD_JOB))).scalars().all()
    _close(connection, database, dead, f"{RETRIED} {by}")


_DEAD = (
    select(
        *(
            Job.__table__.c[name]
            for name in DeadJob.__dataclass_fields__
            if name not in ("owner", "session")
        ),
        Session.owner.label("session_owner"),
        Session.id.label("session_id"),
    )
    .join(Session, Session.key == Job.session_key)
    .where(sql(DEAD_JOB))
)


def _read(row: Any) -> DeadJob:
    # An older version recorded no times.
    return DeadJob(
        id=row.id,
        owner=row.session_owner,
        session=row.session_id,
        kind=row.kind,
        queue=row.queue,
        trigger=row.trigger,
        priority=row.priority,
        options=json.loads(row.options or "{}"),
        attempt=row.attempt,
        tries=row.tries,
        reason=row.reason or "",
        trace=row.trace or "",
        created_at=row.created_at,
        failed_first_at=row.failed_first_at or row.created_at,
        failed_last_at=row.failed_last_at or row.created_at,
    )


def _take(connection: Connection, ids: Collection[int]) -> Sequence[Any]:
    """Lock dead jobs in the order of their ids, without waiting for those that are locked."""
    columns = (Job.id, Job.session_key, Job.kind, Job.queue, Job.trigger, Job.priority, Job.options)
    return connection.execute(
        select(*columns)
        .where(Job.id.in_(sorted(ids)), sql(DEAD_JOB))
        .order_by(Job.id)
        .with_for_update(skip_locked=True)
    ).all()


def _close(connection: Connection, database: Database, ids: Collection[int], how: str) -> None:
    connection.execute(
        update(Job)
        .where(Job.id.in_(ids), sql(DEAD_JOB))
        .values(
            state=JobState.DONE,
            reason=literal(f"{how}: ") + func.coalesce(Job.reason, ""),
            updated_at=database.now(),
        )
    )
