"""Fair scheduling over the owners of a queue: many jobs of one owner do not delay the others.

Only notified jobs count: those can be claimed now, so neither the jobs that wait for their time nor
the number of due ones makes a choice more expensive.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import BindParameter, Connection, bindparam, exists, func, select
from sqlalchemy import text as sql
from sqlalchemy.orm import aliased

from storage.engine import Database, clock
from storage.jobs.terms import DUE_COLUMNS, KNOWN_KIND, NOT_PAUSED, DueJob, JobState, due_job
from storage.models import NOTIFIED_JOB, RUNNING_JOB, Job


@dataclass(frozen=True, slots=True)
class Choice:
    """A job that can be claimed now. `owner` is None where an older version has enqueued it."""

    job: DueJob
    owner: str | None
    priority: int


def notified(connection: Connection, database: Database, job_id: int) -> Choice | None:
    """Return the job that a notification names; None when it is not due, or its queue is paused."""
    return _choice(connection, _notified(database.dialect, database.offset_ms), {"job_id": job_id})


def next_in_rotation(connection: Connection, queue: str, *, after: str | None) -> Choice | None:
    """Return the next job of a queue, serving its owners round robin; None when no job can be
    claimed now.

    The job is one of the next owner after `after` with such a job, in the order of names, starting
    over after the last one. Of this owner's jobs it is the one with the highest priority, among
    equals the one that has waited longest.
    """
    # The empty name sorts before every other.
    return _choice(connection, _next_in_rotation(), {"queue": queue, "after": after or ""})


def count_notified(connection: Connection, queue: str, *, at_most: int) -> int:
    """Return how many jobs of the queue wait for a worker, counted up to `at_most`."""
    already_notified = select(Job.id).where(sql(NOTIFIED_JOB), Job.queue == queue).limit(at_most)
    found = connection.execute(select(func.count()).select_from(already_notified.subquery()))
    return int(found.scalar_one())


_CHOICE = (*DUE_COLUMNS, Job.owner, Job.priority)


@cache
def _notified(dialect: str, offset_ms: int) -> Any:
    """Build the statement of `notified` once: every notification runs it."""
    return select(*_CHOICE).where(
        Job.id == bindparam("job_id"),
        Job.state == JobState.DUE,
        KNOWN_KIND,
        Job.run_at <= clock(dialect, offset_ms),
        NOT_PAUSED,
    )


@cache
def _next_in_rotation() -> Any:
    """Build the statement of `next_in_rotation` once: every notification runs it.

    Owner, priority and time are looked up one after the other, each by one search of the index,
    since no single order of it has all three.
    """
    waiting = _waiting(bindparam("queue"))
    names = select(Job.owner).where(*waiting).order_by(Job.owner).limit(1).correlate(None)
    behind = names.where(Job.owner > bindparam("after")).scalar_subquery()
    first = names.where(Job.owner.is_not(None)).scalar_subquery()
    turn = select(func.coalesce(behind, first).label("owner")).cte("turn")
    mine = (*waiting, Job.owner == select(turn.c.owner).scalar_subquery())
    most_urgent = select(Job.priority).where(*mine).order_by(Job.priority.desc()).limit(1)
    most_urgent = most_urgent.correlate(turn)
    return (
        select(*_CHOICE)
        .where(*mine, Job.priority == most_urgent.scalar_subquery())
        .order_by(Job.run_at, Job.id)
        .limit(1)
    )


def _waiting(queue: str | BindParameter[str]) -> tuple[Any, ...]:
    other = aliased(Job, name="other")
    busy = exists().where(other.session_key == Job.session_key, sql("other." + RUNNING_JOB))
    return (sql(f"jobs.{NOTIFIED_JOB}"), Job.queue == queue, KNOWN_KIND, ~busy)


def _choice(connection: Connection, statement: Any, given: dict[str, Any]) -> Choice | None:
    row = connection.execute(statement, given).first()
    return None if row is None else Choice(due_job(row), row.owner, row.priority)
