"""Renew the lease of a job while it is worked on."""

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

    Yields a function that returns True when the job has to be abandoned at once, even during a
    request to a model: the lease was lost, or the worker is stopping and out of time. If the
    database does not answer, the next renewal tries again; if it stays down, the lease expires.
    """
    database, lease_ms = context.database, context.lease_ms
    ended, lost = Event(), Event()

    def renew() -> None:
        while not ended.wait(lease_ms / 3000):
            try:
                with database.write() as connection:
                    mine = jobs.renew(connection, database, claim, lease_ms=lease_ms)
            except StorageError:
                log.warning("lease of job %d could not be renewed; retrying", claim.job_id)
                continue
            if not mine:
                lost.set()
                return

    renewer = Thread(target=renew, name=f"lease-{claim.job_id}", daemon=True)
    renewer.start()
    try:
        yield lambda: lost.is_set() or context.out_of_time()
    finally:
        ended.set()
        renewer.join()
