"""Keep the lease of a job while it is worked on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

from storage import jobs
from storage.errors import StorageError
from storage.jobs import Claim
from workers.runtime.context import WorkerContext

log = logging.getLogger(__name__)


@contextmanager
def keep_lease(context: WorkerContext, claim: Claim) -> Iterator[Callable[[], bool]]:
    """Renew the lease of `claim` in the background, up to the job's deadline.

    Yields a function that returns True when the job is to be left at once, a running request to a
    model included: the lease was lost, or the worker stops and is out of time. Where the database
    does not answer, the next renewal tries again; if it stays away the lease ends by itself.
    """
    database, lease_ms = context.database, context.lease_ms
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
        yield lambda: lost.is_set() or context.out_of_time()
    finally:
        ended.set()
        keeper.join()
