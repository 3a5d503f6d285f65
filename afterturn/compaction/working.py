"""Work a manual job in this process, beside whatever workers there are."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Event

from afterturn.compaction.progress import Progress
from afterturn.words import duration
from storage import job_records
from storage.engine import Database
from storage.job_records import JobRecord, JobStanding
from storage.jobs import JobState
from tasks.publishing import publish_signals
from workers.micro.outcomes import Failed
from workers.triggers import Trigger
from workers.work import Crashed, NotClaimed, Worked, work
from workers.workshop import Workshop

ELSEWHERE_SECONDS = 0.3
"""Pause between two looks at a job that another process works."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A job that was made due for a person. `after` is the number of its session's last try
    before, `whole` says that the usual part of the session is meant."""

    key: int
    job_id: int
    after: int
    whole: bool = True


def work_here(shop: Workshop, asked: Asked, progress: Progress, interrupted: Event) -> None:
    """Work a job until nothing of what the person asked for is left to do.

    A job that another process has claimed is waited for. Between two tries this waits as long as
    the job does. Returns early when `interrupted` is set. Raises `StorageError`, and whatever the
    job raised that nobody foresaw.
    """
    told_elsewhere = False
    while not interrupted.is_set():
        pause = 0.0
        match work(shop, asked.job_id):
            case Crashed(error):
                raise error
            case NotClaimed():
                pause = ELSEWHERE_SECONDS
            case Worked() as done:
                publish_signals(shop.settings.current().broker_url, done.signals)
                if done.failed is not None:
                    progress.remark(_failure(done.failed))
        standing = standing_of(shop.database, asked)
        if standing is None:
            return
        if standing.left_ms:
            progress.step(f"waiting {duration(standing.left_ms)} before the next attempt")
            pause = standing.left_ms / 1000
        elif pause and not told_elsewhere:
            told_elsewhere = True
            progress.remark("A worker has the session now; waiting for it.")
        interrupted.wait(pause)


def standing_of(database: Database, asked: Asked) -> JobStanding | None:
    """How the job stands; None when nothing of what was asked for is left to do."""
    with database.read() as connection:
        found = job_records.open_jobs(connection, asked.key)
        standing = job_records.standing(connection, database, asked.job_id)
    job = next((one for one in found if one.id == asked.job_id), None)
    return standing if job is not None and _is_ours(job) else None


def _is_ours(job: JobRecord) -> bool:
    """Whether the job is still open for the person, now or when its present work is done."""
    return job.trigger == Trigger.MANUAL or (job.state is JobState.RUNNING and job.again)


def _failure(failed: Failed) -> str:
    # The detail names the model that was asked last.
    return f"No summary: {failed.error_class.value}, {failed.detail or failed.model}."
