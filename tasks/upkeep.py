"""Tasks `upkeep.…`: what the schedule asks for."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from types import MappingProxyType

from celery import Celery

from storage import queue_states, search, slots, upkeep
from storage.errors import StorageError
from tasks.conclusion import WorkshopSource
from tasks.names import FORGET, INDEX, RECONCILE, SCAN_IDLE, SWEEP, TEND, UPKEEP
from tasks.ring import ring
from workers.idle import scan_idle
from workers.log_lines import LogEvent, tell
from workers.reconcile import reconcile
from workers.retention import forget
from workers.runtime.context import Workshop
from workers.sweep import sweep

log = logging.getLogger(__name__)


def define(app: Celery, workshop: WorkshopSource) -> None:
    """Give `app` a task for each of the acts."""
    for name in _ACTS:
        _define(app, workshop, name)


def tick(app: Celery, shop: Workshop, name: str, every_seconds: float | None) -> str:
    """Do what a schedule asks for, unless somebody has done so within this tick of it; gives how
    much was found, in words.

    Without `every_seconds` it is done in any case. While queue `upkeep` is paused only lost rings
    are looked for: what runs must come to its end even if its worker is gone.
    """
    with shop.database.read() as connection:
        if name != RECONCILE and queue_states.is_paused(connection, UPKEEP):
            return "paused"
    if every_seconds is not None:
        with shop.database.write() as connection:
            every_ms = max(1, int(1000 * every_seconds))
            if not slots.take(connection, shop.database, name, every_ms=every_ms):
                return "done already"
    found = _ACTS[name](app, shop)
    if found:
        tell(log, LogEvent.UPKEEP_ENDED, {"task": name, "found": found})
    return str(found)


def _define(app: Celery, workshop: WorkshopSource, name: str) -> None:
    # A shared task would be given to every later application too, in place of its own.
    @app.task(name=name, shared=False, throws=(StorageError,))
    def run(every_seconds: float | None = None, **_facts: object) -> str:
        return tick(app, workshop(), name, every_seconds)


def _reconcile(app: Celery, shop: Workshop) -> int:
    return ring(app, reconcile(shop))


def _sweep(app: Celery, shop: Workshop) -> int:
    found = sweep(shop)
    if found.jobs:
        ring(app, reconcile(shop))
    return found.jobs


def _scan_idle(app: Celery, shop: Workshop) -> int:
    found = scan_idle(shop)
    if found.due:
        ring(app, reconcile(shop))
    return found.due


def _forget(_app: Celery, shop: Workshop) -> int:
    return forget(shop).rows


def _tend(_app: Celery, shop: Workshop) -> int:
    return upkeep.tend(shop.database).moved


def _index(_app: Celery, shop: Workshop) -> int:
    return search.index_pending(shop.database).rows


_ACTS: Mapping[str, Callable[[Celery, Workshop], int]] = MappingProxyType(
    {
        RECONCILE: _reconcile,
        SWEEP: _sweep,
        SCAN_IDLE: _scan_idle,
        FORGET: _forget,
        TEND: _tend,
        INDEX: _index,
    }
)
