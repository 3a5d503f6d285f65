"""Find due jobs that no worker runs: a broker message is only a notification and may be lost."""

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
"""Longest pause between two notifications of a job. A job that was notified several times waits for
workers, not for a notification, so the pause grows with the time that it has waited. A backlog of
hours does not flood a queue, and a broker that came back empty is refilled within this time."""

_PAUSES: Mapping[str, int] = MappingProxyType(
    {"again_after_ms": NOTIFY_AGAIN_MS, "at_latest_ms": AT_LATEST_MS}
)
_PAGE = 200
_PAGES = 50
"""Limits one round to 10,000 notifications, in short transactions."""


def reconcile(context: WorkerContext) -> list[DueJob]:
    """Make jobs with expired leases due again, refill the bulk run, and return the jobs to notify
    workers of.

    Takes no write lock if there are none. A job is returned at most once in 30 seconds, and less
    often the longer it has waited, no matter how many reconcilers run.
    """
    database = context.database
    refill(database, actor=context.actor)
    with database.read() as connection:
        due = jobs.any_due(connection, database, **_PAUSES)
        bulk = jobs.any_bulk(connection, database, at_once=_room(context, connection))
    return (_due(database) if due else []) + (notify_bulk(context) if bulk else [])


def notify_bulk(context: WorkerContext) -> list[DueJob]:
    """Return the bulk jobs to notify workers of, so that `worker.bulk_at_once` are under way, or
    one while there is live work. Called again whenever a bulk job ends."""
    with context.database.write() as connection:
        at_once = _room(context, connection)
        return jobs.notify_bulk(connection, context.database, at_once=at_once)


def _room(context: WorkerContext, connection: Connection) -> int:
    """Return how many bulk jobs may be under way: they yield to live work but never stop
    altogether."""
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
