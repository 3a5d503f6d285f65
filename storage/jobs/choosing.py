"""Whose turn it is in a queue, so that nobody's many jobs keep others waiting.

Only jobs that were rung for count: those can be claimed now, so that neither the jobs that wait
for their time nor how many are due makes a look longer. Each look is one seek in an index.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, exists, func, select
from sqlalchemy import text as sql
from sqlalchemy.orm import aliased

from storage.engine import Database
from storage.jobs.terms import DUE_COLUMNS, KNOWN_KIND, NOT_PAUSED, DueJob, JobState, due_job
from storage.models import RUNG_JOB, RUNNING_JOB, Job


@dataclass(frozen=True, slots=True)
class Choice:
    """A job that could be claimed now. `owner` is None where an older version has made it."""

    job: DueJob
    owner: str | None
    strength: int


def rung(connection: Connection, database: Database, job_id: int) -> Choice | None:
    """The job that a ring names; None when it is not due, or its queue is paused."""
    return _choice(
        connection,
        _CHOICE.where(
            Job.id == job_id,
            Job.state == JobState.DUE,
            KNOWN_KIND,
            Job.run_at <= database.now(),
            NOT_PAUSED,
        ),
    )


def next_owner(connection: Connection, queue: str, *, after: str | None) -> str | None:
    """The next owner behind `after`, in the order of names and from the end on to the beginning,
    who has a job in the queue that could be claimed now; None when nobody has."""
    owners = select(Job.owner).where(*_waiting(queue)).order_by(Job.owner).limit(1)
    if after is not None:
        behind = connection.execute(owners.where(Job.owner > after)).scalar_one_or_none()
        if behind is not None:
            return behind
    return connection.execute(owners.where(Job.owner.is_not(None))).scalar_one_or_none()


def first_due(connection: Connection, queue: str, owner: str) -> Choice | None:
    """Of the owner's jobs in the queue that could be claimed now the strongest one, of several
    the one that waits longest."""
    mine = (*_waiting(queue), Job.owner == owner)
    strongest = select(Job.strength).where(*mine).order_by(Job.strength.desc()).limit(1)
    strength = connection.execute(strongest).scalar_one_or_none()
    if strength is None:
        return None
    longest = _CHOICE.where(*mine, Job.strength == strength).order_by(Job.run_at, Job.id)
    return _choice(connection, longest.limit(1))


def count_rung(connection: Connection, queue: str, *, at_most: int) -> int:
    """How many jobs of the queue wait for a worker, counted up to `at_most`."""
    rung_there = select(Job.id).where(sql(RUNG_JOB), Job.queue == queue).limit(at_most)
    found = connection.execute(select(func.count()).select_from(rung_there.subquery()))
    return int(found.scalar_one())


_CHOICE = select(*DUE_COLUMNS, Job.owner, Job.strength)


def _waiting(queue: str) -> tuple[Any, ...]:
    other = aliased(Job, name="other")
    busy = exists().where(other.session_key == Job.session_key, sql("other." + RUNNING_JOB))
    return (sql(RUNG_JOB), Job.queue == queue, KNOWN_KIND, ~busy)


def _choice(connection: Connection, query: Select[*tuple[Any, ...]]) -> Choice | None:
    row = connection.execute(query).first()
    return None if row is None else Choice(due_job(row), row.owner, row.strength)
