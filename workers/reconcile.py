"""Find due work that nobody works on (ARCHITECTURE.md: a broker message is only a doorbell)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from sqlalchemy import Connection

from storage import jobs
from storage.engine import Database
from storage.jobs import DueJob
from workers.recompaction import feed
from workers.runtime.context import Workshop

RING_AGAIN_MS = 30_000
"""How long a ring is given before it counts as lost: longer than a queue of short jobs takes,
shorter than a person waits."""

AT_LATEST_MS = 300_000
"""What was rung for several times waits for workers, not for a ring: the pause between its rings
grows with the time that it has waited, up to this. So a backlog of hours does not flood a queue,
and a broker that came back empty is rung full again within it."""

_PAUSES: Mapping[str, int] = MappingProxyType(
    {"again_after_ms": RING_AGAIN_MS, "at_latest_ms": AT_LATEST_MS}
)
_PAGE = 200
_PAGES = 50
"""So that 10,000 jobs are rung for at once at the most, in short transactions."""


def reconcile(shop: Workshop) -> list[DueJob]:
    """Put jobs with ended leases back to due, go on with bulk re-compaction, and give the jobs that
    have to be rung for now.

    Takes no write lock when there are none. A job is given once in 30 seconds at the most, and
    ever more rarely the longer it has waited, however many reconcilers run.
    """
    database = shop.database
    feed(database, actor=shop.actor)
    with database.read() as connection:
        due = jobs.any_due(connection, database, **_PAUSES)
        bulk = jobs.any_bulk(connection, database, at_once=_room(shop, connection))
    return (_due(database) if due else []) + (ring_bulk(shop) if bulk else [])


def ring_bulk(shop: Workshop) -> list[DueJob]:
    """Give the bulk jobs that it is time to ring for, so that `worker.bulk_at_once` are under
    way, and one while anything else is to be worked. A bulk job that ends calls for the next."""
    with shop.database.write() as connection:
        at_once = _room(shop, connection)
        return jobs.ring_bulk(connection, shop.database, at_once=at_once)


def _room(shop: Workshop, connection: Connection) -> int:
    """How many bulk jobs may be under way: they take turns with live work, and never stand still
    for it."""
    return 1 if jobs.any_live(connection, shop.database) else shop.bulk_at_once


def _due(database: Database) -> list[DueJob]:
    with database.write() as connection:
        jobs.rescue_expired(connection, database)
    found: list[DueJob] = []
    for _ in range(_PAGES):
        with database.write() as connection:
            page = jobs.ring_due(connection, database, **_PAUSES, limit=_PAGE)
        found += page
        if len(page) < _PAGE:
            break
    return found
