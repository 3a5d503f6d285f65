"""Turn a job's outcome into a Celery state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from celery import Celery
from celery.exceptions import Retry

from tasks.publishing import notify, publish_signals
from workers.runtime.context import WorkerContext
from workers.runtime.jobs import Crashed, NotClaimed, Worked, work_next
from workers.runtime.pass_context import PassResult

ContextSource: TypeAlias = Callable[[], WorkerContext]
"""Returns the context of the jobs of this process."""


class JobDead(Exception):
    """A job that failed at every attempt and is dead.

    `afterturn dead list` shows it; its session goes on with the next turn.
    """


class TryFailed(Exception):
    """A failed try of a job that will be retried; the text names session, reason and delay."""


def work_and_conclude(app: Celery, worker_context: WorkerContext, job_id: int) -> str:
    """Run a job, notify workers of due jobs, publish its signals, and return a short summary.

    A try that will be repeated ends as RETRY: the exception is raised, but no message is sent,
    since the row waits by its `run_at`. A dead job ends as FAILURE. The message names a job of one
    session; where it was another owner's turn, the summary names the session that was processed.
    """
    match work_next(worker_context, job_id):
        case NotClaimed():
            return "already taken"
        case Worked() as done:
            notify(app, done.due)
            publish_signals(app.conf.broker_url, done.signals)
            if done.failed is not None:
                raise _retry(done.session, _reason(done.failed), done.failed.delay_ms)
            other = f"session {done.session} " if done.job_id != job_id else ""
            more = f"; decided about {done.together} sessions" if done.together > 1 else ""
            return other + _summary(done) + more
        case Crashed(error) as crash:
            notify(app, crash.due)
            publish_signals(app.conf.broker_url, crash.signals)
            if crash.dead:
                raise JobDead(f"session {crash.session}: {type(error).__name__} at every attempt")
            raise _retry(crash.session, type(error).__name__, crash.retry_ms)


def _retry(session: str, reason: str, delay_ms: int) -> Retry:
    seconds = delay_ms / 1000
    text = f"session {session}: {reason}; again in {seconds:.0f} s"
    # The time is for display only; the row's `run_at`, by the database's clock, decides.
    # Flower shows the exception that caused a retry, and nothing of the retry itself.
    return Retry(text, exc=TryFailed(text), when=datetime.now(UTC) + timedelta(seconds=seconds))


def _reason(failed: PassResult) -> str:
    detail = f" ({failed.detail})" if failed.detail else ""
    return f"{failed.model}: {failed.error_class}{detail}"


def _summary(done: Worked) -> str:
    counts = Counter(one.outcome.value for one in done.passes)
    if not counts:
        return f"due: {', '.join(job.kind for job in done.due) or 'nothing'}"
    return ", ".join(f"{name} {count}" for name, count in counts.items())
