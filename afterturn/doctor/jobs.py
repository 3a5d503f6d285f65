"""Whether jobs wait too long."""

from __future__ import annotations

from afterturn.doctor.finding import Finding
from afterturn.words import duration
from storage import backlog
from storage.engine import Database

CHECK = "jobs"

LONG_MS = 120_000
"""A job that has been due for longer is worked by nobody, or by too few: a ring that was lost is
repeated within half a minute, and a pass takes seconds."""


def check_jobs(database: Database) -> Finding:
    """What was found of the jobs table."""
    with database.read() as connection:
        found = backlog.measure(connection, database)
    detail = (
        f"{found.due} due, {found.waiting} waiting for their time, {found.running} running, "
        f"{found.dead} dead"
    )
    if found.oldest_ms is not None:
        detail += f"; the oldest has been due for {duration(found.oldest_ms)}"
    if found.oldest_ms is not None and found.oldest_ms > LONG_MS:
        return Finding.warn(
            CHECK, detail, "start workers, or more of them: `afterturn up`, `afterturn worker`"
        )
    if found.dead:
        return Finding.warn(
            CHECK,
            detail,
            "a job that failed at every try is dead; the worker's log says why, and the session "
            "goes on with its next turn",
        )
    return Finding.ok(CHECK, detail)
