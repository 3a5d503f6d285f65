"""What a worker does with jobs, each in a transaction of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from storage import jobs
from storage.engine import Database
from storage.jobs import Claim, DueJob, Ended, job_records
from storage.jobs.job_records import JobRecord
from tests.support.sessions.stored_session import later

LEASE_MS = 60_000
DEADLINE_MS = 600_000
AGAIN_MS = 30_000
AT_LATEST_MS = 300_000


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker, and the reconciler beside it."""

    database: Database
    name: str = "w"

    def after(self, ms: int) -> Worker:
        """Return the same worker, `ms` milliseconds later."""
        return Worker(later(self.database, ms), self.name)

    def claim(
        self, job_id: int, *, lease_ms: int = LEASE_MS, deadline_ms: int = DEADLINE_MS
    ) -> Claim | None:
        """Try to claim a job."""
        with self.database.write() as connection:
            return jobs.claim(
                connection,
                self.database,
                job_id,
                lease_owner=self.name,
                lease_ms=lease_ms,
                deadline_ms=deadline_ms,
            )

    def take(
        self, job: DueJob, *, lease_ms: int = LEASE_MS, deadline_ms: int = DEADLINE_MS
    ) -> Claim:
        """Claim a job that nothing stands in the way of."""
        claim = self.claim(job.id, lease_ms=lease_ms, deadline_ms=deadline_ms)
        assert claim is not None
        return claim

    def renew(self, claim: Claim, *, lease_ms: int = LEASE_MS) -> bool:
        with self.database.write() as connection:
            return jobs.renew(connection, self.database, claim, lease_ms=lease_ms)

    def check(self, claim: Claim) -> None:
        with self.database.write() as connection:
            jobs.check_fence(connection, claim)

    def proceed(self, claim: Claim) -> None:
        with self.database.write() as connection:
            jobs.proceed(
                connection, self.database, claim, lease_ms=LEASE_MS, deadline_ms=DEADLINE_MS
            )

    def finish(self, claim: Claim) -> bool:
        with self.database.write() as connection:
            return jobs.finish(connection, self.database, claim)

    def release(
        self,
        claim: Claim,
        *,
        delay_ms: int = 0,
        reason: str | None = "timeout",
        ended: Ended = Ended.CRASHED,
    ) -> None:
        with self.database.write() as connection:
            jobs.release(
                connection,
                self.database,
                claim,
                delay_ms=delay_ms,
                reason=reason,
                ended=ended,
            )

    def dead_letter(self, claim: Claim) -> None:
        with self.database.write() as connection:
            jobs.dead_letter(connection, self.database, claim, reason="KeyError", trace="frames")

    def rescue(self) -> int:
        with self.database.write() as connection:
            return jobs.rescue_expired(connection, self.database)

    def notify(self, *, limit: int = 100) -> list[DueJob]:
        with self.database.write() as connection:
            return jobs.notify_due(
                connection,
                self.database,
                again_after_ms=AGAIN_MS,
                at_latest_ms=AT_LATEST_MS,
                limit=limit,
            )

    def any_due(self) -> bool:
        with self.database.read() as connection:
            return jobs.any_due(
                connection, self.database, again_after_ms=AGAIN_MS, at_latest_ms=AT_LATEST_MS
            )

    def due_in(self, key: int) -> list[DueJob]:
        with self.database.read() as connection:
            return jobs.due_in_session(connection, self.database, key)

    def jobs_of(self, key: int) -> list[JobRecord]:
        """Return every job of a session, oldest first."""
        with self.database.read() as connection:
            return job_records.all_jobs(connection, key)

    def job(self, job_id: int) -> JobRecord:
        """Return an open job as it is now."""
        with self.database.read() as connection:
            return next(job for job in job_records.open_jobs(connection) if job.id == job_id)


WRITES: dict[str, Callable[[Worker, Claim], object]] = {
    "check_fence": Worker.check,
    "proceed": Worker.proceed,
    "finish": Worker.finish,
    "release": Worker.release,
    "dead_letter": Worker.dead_letter,
}
"""Every way for a lease owner to write."""
