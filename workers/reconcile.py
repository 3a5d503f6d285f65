"""Find due work that nobody works on (ARCHITECTURE.md: a broker message is only a doorbell)."""

from __future__ import annotations

from storage import jobs
from storage.jobs import DueJob
from workers.workshop import Workshop

RING_AGAIN_MS = 30_000
"""How long a ring is given before it counts as lost: longer than a queue of short jobs takes,
shorter than a person waits."""

_PAGE = 200


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
        return jobs.ring_due(connection, database, again_after_ms=RING_AGAIN_MS, limit=_PAGE)
