"""Find due work that nobody works on (ARCHITECTURE.md: a broker message is only a doorbell)."""

from __future__ import annotations

from storage import jobs
from storage.jobs import DueJob
from workers.workshop import Workshop

RING_AGAIN_MS = 30_000
"""How long a ring is given before it counts as lost: longer than a queue of short jobs takes,
shorter than a person waits."""

_PAGE = 200
_PAGES = 50
"""So that 10,000 jobs are rung for at once at the most, in short transactions."""


def reconcile(shop: Workshop) -> list[DueJob]:
    """Put jobs with ended leases back to due and give the jobs that have to be rung for now.

    Takes no write lock when there are none. A job is given once in 30 seconds at the most,
    however many reconcilers run.
    """
    database = shop.database
    with database.read() as connection:
        if not jobs.any_due(connection, database, again_after_ms=RING_AGAIN_MS):
            return []
    with database.write() as connection:
        jobs.rescue_expired(connection, database)
    found: list[DueJob] = []
    for _ in range(_PAGES):
        with database.write() as connection:
            page = jobs.ring_due(connection, database, again_after_ms=RING_AGAIN_MS, limit=_PAGE)
        found += page
        if len(page) < _PAGE:
            break
    return found
