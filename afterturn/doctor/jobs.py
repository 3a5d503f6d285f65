"""Whether jobs wait too long, were given up, or are held back by a paused queue."""

from __future__ import annotations

from afterturn.doctor.finding import Finding
from afterturn.render.words import count, duration, moment
from storage.engine import Database
from storage.jobs import backlog, dead_jobs, queue_states
from storage.jobs.backlog import together

JOBS, DEAD, PAUSED = "jobs", "dead jobs", "paused queues"

LONG_MS = 600_000
"""A job that has been due for longer is worked by nobody, or by too few: a ring that was lost is
repeated within half a minute, and a pass takes seconds."""


def check_jobs(database: Database) -> list[Finding]:
    """What was found of the jobs table."""
    return [_open(database), _dead(database), _paused(database)]


def _open(database: Database) -> Finding:
    with database.read() as connection:
        queues = backlog.by_queue(connection, database)
        paused = {queue.name for queue in queue_states.paused(connection)}
    found = together(queues.values())
    detail = f"{found.due} due, {found.waiting} waiting for their time, {found.running} running"
    # What a pause holds back is told by the pause.
    oldest = together(one for name, one in queues.items() if name not in paused).oldest_ms
    if oldest is None:
        return Finding.ok(JOBS, detail)
    detail += f"; the oldest has been due for {duration(oldest)}"
    if oldest <= LONG_MS:
        return Finding.ok(JOBS, detail)
    return Finding.warn(
        JOBS,
        detail,
        "start workers, or more of them: `afterturn up`, `afterturn worker`; "
        "`afterturn queues` shows where it waits",
    )


def _dead(database: Database) -> Finding:
    with database.read() as connection:
        reasons = dead_jobs.reasons(connection)
    if not reasons:
        return Finding.ok(DEAD, "none")
    number = sum(one.jobs for one in reasons)
    detail = count(number, "job") + f" given up, {reasons[0].jobs} of them for the reason "
    return Finding.warn(
        DEAD,
        f"{detail}{reasons[0].text!r}",
        "see `afterturn dead list` and `dead show JOB`, then `dead retry` or `dead drop` them; "
        "their sessions go on with the next turn",
    )


def _paused(database: Database) -> Finding:
    with database.read() as connection:
        paused = queue_states.paused(connection)
    if not paused:
        return Finding.ok(PAUSED, "none")
    told = ", ".join(
        f"{one.name} since {moment(one.since)}" + (f" ({one.reason})" if one.reason else "")
        for one in paused
    )
    names = " ".join(one.name for one in paused)
    return Finding.warn(
        PAUSED, told, f"`afterturn queues resume {names}` when they are to be worked again"
    )
