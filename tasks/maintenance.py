"""Maintenance tasks of the schedule, each run at most once per tick."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from types import MappingProxyType

from celery import Celery

from storage import maintenance, scheduling, search
from storage.jobs import queue_states
from tasks.names import (
    DATABASE,
    INDEX,
    MAINTENANCE,
    RECONCILE,
    RECOVER_ORPHANS,
    RETENTION,
    SCAN_IDLE,
)
from tasks.publishing import notify
from workers.runtime.context import WorkerContext
from workers.scans.idle import scan_idle
from workers.scans.orphans import recover_orphans
from workers.scans.reconcile import reconcile
from workers.scans.retention import delete_expired
from workers.telemetry.log_lines import LogEvent, log_event

log = logging.getLogger(__name__)


def tick(app: Celery, context: WorkerContext, name: str, every_seconds: float | None) -> str:
    """Run the maintenance task `name` and return how much it found, in words.

    Does nothing if a worker has run it within this tick of the schedule; without `every_seconds` it
    always runs. While queue `maintenance` is paused only lost notifications are searched for: a job
    that runs must finish even if its worker is lost.
    """
    with context.database.read() as connection:
        if name != RECONCILE and queue_states.is_paused(connection, MAINTENANCE):
            return "paused"
    if every_seconds is not None:
        with context.database.write() as connection:
            every_ms = max(1, int(1000 * every_seconds))
            if not scheduling.take(connection, context.database, name, every_ms=every_ms):
                return "done already"
    found = MAINTENANCE_TASKS[name](app, context)
    if found:
        log_event(log, LogEvent.MAINTENANCE_ENDED, {"task": name, "found": found})
    return str(found)


def _reconcile(app: Celery, context: WorkerContext) -> int:
    return notify(app, reconcile(context))


def _recover_orphans(app: Celery, context: WorkerContext) -> int:
    found = recover_orphans(context)
    if found.jobs:
        notify(app, reconcile(context))
    return found.jobs


def _scan_idle(app: Celery, context: WorkerContext) -> int:
    found = scan_idle(context)
    if found.enqueued:
        notify(app, reconcile(context))
    return found.enqueued


MAINTENANCE_TASKS: Mapping[str, Callable[[Celery, WorkerContext], int]] = MappingProxyType(
    {
        RECONCILE: _reconcile,
        RECOVER_ORPHANS: _recover_orphans,
        SCAN_IDLE: _scan_idle,
        RETENTION: lambda _app, context: delete_expired(context).rows,
        DATABASE: lambda _app, context: maintenance.maintain(context.database).moved,
        INDEX: lambda _app, context: search.index_pending(context.database).rows,
    }
)
"""Every maintenance task by its Celery name. Each returns how much it found to do."""
