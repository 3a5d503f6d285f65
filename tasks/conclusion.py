"""From a job's outcome to a Celery state (ARCHITECTURE.md, *Jobs*)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from celery import Celery
from celery.exceptions import Retry

from tasks.ring import ring
from workers.work import Crashed, NotClaimed, Worked, work
from workers.workshop import Workshop


class JobDead(Exception):
    """The job failed at every attempt and is dead. See it with `afterturn doctor`; its session
    goes on with the next turn."""


def work_and_conclude(app: Celery, workshop: Workshop, job_id: int) -> str:
    """Work a job, ring for what is due next, and say in a few words what was done.

    A try that will be repeated ends as RETRY: the exception is raised, but no message is sent,
    for the row waits by its `run_at`. A dead job ends as FAILURE.
    """
    match work(workshop, job_id):
        case NotClaimed():
            return "not claimed"
        case Worked() as done:
            ring(app, done.due)
            if done.retry_ms is not None:
                raise Retry(_summary(done), when=_later(done.retry_ms))
            return _summary(done)
        case Crashed(error, dead, retry_ms):
            if dead:
                raise JobDead(type(error).__name__)
            raise Retry(type(error).__name__, when=_later(retry_ms))


def _later(milliseconds: int) -> datetime:
    """For display only; the row's `run_at`, by the database's clock, is what counts."""
    return datetime.now(UTC) + timedelta(milliseconds=milliseconds)


def _summary(done: Worked) -> str:
    counts: dict[str, int] = {}
    for outcome in done.passes:
        name = type(outcome).__name__
        counts[name] = counts.get(name, 0) + 1
    return ", ".join(f"{name} {count}" for name, count in counts.items()) or done.kind.value


WorkshopSource = Callable[[], Workshop]
