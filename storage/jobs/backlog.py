"""The backlog: how much work waits in the jobs table, and for how long."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from sqlalchemy import Connection, case, func, select
from sqlalchemy import text as sql

from storage.engine import Database
from storage.jobs import JobState
from storage.models import DEAD_JOB, OPEN_JOB, RUNNING_JOB, Job


@dataclass(frozen=True, slots=True)
class Backlog:
    """Counts of jobs: `due` can be claimed now, `waiting` have a later time, `running` are under a
    lease, `dead` were given up. `oldest_ms` is how long the oldest due one has been due."""

    due: int = 0
    waiting: int = 0
    running: int = 0
    dead: int = 0
    oldest_ms: int | None = None


def by_queue(connection: Connection, database: Database) -> dict[str, Backlog]:
    """Count the jobs that are not done in each queue that has any; ages are by the database's
    clock. The cost depends on such jobs only, however many are done."""
    now = database.now()
    due = (Job.state == JobState.DUE) & (Job.run_at <= now)
    waiting = (Job.state == JobState.DUE) & (Job.run_at > now)
    running = Job.state == JobState.RUNNING
    rows = connection.execute(
        select(
            Job.queue,
            *(func.sum(case((which, 1), else_=0)) for which in (due, waiting, running)),
            now - func.min(case((due, Job.run_at))),
        )
        .where(sql(OPEN_JOB))
        .group_by(Job.queue)
    )
    found = {
        queue: Backlog(
            int(counts[0]),
            int(counts[1]),
            int(counts[2]),
            oldest_ms=None if oldest is None else max(0, int(oldest)),
        )
        for queue, *counts, oldest in rows
    }
    dead = connection.execute(
        select(Job.queue, func.count()).where(sql(DEAD_JOB)).group_by(Job.queue)
    )
    for queue, number in dead:
        found[queue] = replace(found.get(queue, Backlog()), dead=number)
    return found


def measure(connection: Connection, database: Database) -> Backlog:
    """Count all jobs that are not done; ages are by the database's clock."""
    return together(by_queue(connection, database).values())


def together(backlogs: Iterable[Backlog]) -> Backlog:
    """Return one backlog for several queues."""
    of = list(backlogs)
    return Backlog(
        sum(one.due for one in of),
        sum(one.waiting for one in of),
        sum(one.running for one in of),
        sum(one.dead for one in of),
        max((one.oldest_ms for one in of if one.oldest_ms is not None), default=None),
    )


def running(connection: Connection) -> int:
    """Return how many jobs are running, including those whose lease has ended."""
    found = connection.execute(select(func.count()).select_from(Job).where(sql(RUNNING_JOB)))
    return int(found.scalar_one())
