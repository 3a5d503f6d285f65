"""How much work waits in the jobs table, and for how long."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, case, func, select

from storage.engine import Database
from storage.jobs import JobState
from storage.models import Job


@dataclass(frozen=True, slots=True)
class Backlog:
    """Counts of jobs: `due` could be worked now, `waiting` have a later time, `running` are held
    by workers, `dead` were given up. `oldest_ms` is how long the oldest due one has been due."""

    due: int
    waiting: int
    running: int
    dead: int
    oldest_ms: int | None


def measure(connection: Connection, database: Database) -> Backlog:
    """Count all jobs that are not done; ages are by the database's clock."""
    now = database.now()
    due = (Job.state == JobState.DUE) & (Job.run_at <= now)
    waiting = (Job.state == JobState.DUE) & (Job.run_at > now)
    counts = (due, waiting, Job.state == JobState.RUNNING, Job.state == JobState.DEAD)
    row = connection.execute(
        select(
            *(func.coalesce(func.sum(case((which, 1), else_=0)), 0) for which in counts),
            now - func.min(case((due, Job.run_at))),
        ).where(Job.state != JobState.DONE)
    ).one()
    oldest = None if row[4] is None else max(0, int(row[4]))
    return Backlog(int(row[0]), int(row[1]), int(row[2]), int(row[3]), oldest)
