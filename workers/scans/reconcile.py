"""Find due jobs that nobody runs: a broker message is only a notification and may be lost."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from sqlalchemy import Connection

from storage import jobs
from storage.engine import Database
from storage.jobs import DueJob
from workers.runtime.context import WorkerContext
from workers.scans.recompaction import refill

NOTIFY_AGAIN_MS = 30_000
"""Age at which a notification counts as lost: longer than a queue of short jobs takes, shorter than
a person waits."""

AT_LATEST_MS = 300_000
"""A job that was notified several times waits for workers, not for a notification: the pause
between its notifications grows with the time that it has waited, up to this. So a backlog of hours
does not flood a queue, and a broker that came back empty is refilled within it."""

_PAUSES: Mapping[str, int] = MappingProxyType(
    {"again_after_ms": NOTIFY_AGAIN_MS, "at_latest_ms": AT_LATEST_MS}
)
_PAGE = 200
_PAGES = 50
"""So that 10,000 jobs are notified at once at the most, in short transactions."""


def reconcile(context: WorkerContext) -> list[DueJob]:
    """Put jobs with expired leases back to due, refill the bulk run, and return the jobs to be
    notified now.

    Takes no write lock when there are none. A job is returned once in 30 seconds at the most, and
    ever more rarely the longer it has waited, however many reconcilers run.
    """
    database = context.database
    refill(database, actor=context.actor)
    with database.read() as connection:
        due = jobs.any_due(connection, database, **_PAUSES)
        bulk = jobs.any_bulk(connection, database, at_once=_room(context, connection))
    return (_due(database) if due else []) + (notify_bulk(context) if bulk else [])


def notify_bulk(context: WorkerContext) -> list[DueJob]:
    """Return the bulk jobs to be notified now, so that `worker.bulk_at_once` are under way, and one
    while there is any live work. A bulk job that ends calls for the next."""
    with context.database.write() as connection:
        at_once = _room(context, connection)
        return jobs.notify_bulk(connection, context.database, at_once=at_once)


def _room(context: WorkerContext, connection: Connection) -> int:
    """Return how many bulk jobs may be under way: they yield to live work but never stop."""
    return 1 if jobs.any_live(connection, context.database) else context.bulk_at_once


def _due(database: Database) -> list[DueJob]:
    with database.write() as connection:
        jobs.rescue_expired(connection, database)
    found: list[DueJob] = []
    for _ in range(_PAGES):
        with database.write() as connection:
            page = jobs.notify_due(connection, database, **_PAUSES, limit=_PAGE)
        found += page
        if len(page) < _PAGE:
            break
    return found
