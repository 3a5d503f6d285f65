"""Holding on to a claimed job while it is worked on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

from storage import jobs
from storage.engine import Database
from storage.errors import StorageError
from storage.jobs import Claim

log = logging.getLogger(__name__)


@contextmanager
def kept(database: Database, claim: Claim, *, lease_ms: int) -> Iterator[Callable[[], bool]]:
    """Renew the lease of `claim` in the background, up to the job's deadline.

    Gives a function that tells whether the lease was lost. A database that does not answer is
    asked again at the next renewal; the lease then ends by itself if it stays away.
    """
    ended, lost = Event(), Event()

    def renew() -> None:
        while not ended.wait(lease_ms / 3000):
            try:
                with database.write() as connection:
                    mine = jobs.renew(connection, database, claim, lease_ms=lease_ms)
            except StorageError:
                log.warning("lease of job %d could not be renewed now", claim.job_id)
                continue
            if not mine:
                lost.set()
                return

    keeper = Thread(target=renew, name=f"lease-{claim.job_id}", daemon=True)
    keeper.start()
    try:
        yield lost.is_set
    finally:
        ended.set()
        keeper.join()
