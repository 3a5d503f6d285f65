"""Have a session compacted because a person asks, and work the job here until it is done."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import Event, Thread

from afterturn.compaction.result import Asked, Result, read_result
from afterturn.invocation import person
from afterturn.render.console import Output
from afterturn.render.progress import Steps, show_progress
from afterturn.render.words import duration
from producers import Gateway
from storage import attempts
from storage.conversations.sessions import SessionRecord
from storage.engine import Database
from storage.jobs import JobState, job_records
from storage.jobs.job_records import JobOverview, JobRecord
from tasks.publishing import publish_signals
from workers.batch.placeholders import withdraw
from workers.batch.preview import Preview
from workers.batch.span import CompactionOptions
from workers.policy.triggers import Trigger
from workers.runtime.context import WorkerContext
from workers.runtime.jobs import Crashed, NotClaimed, Worked, work
from workers.settings.file import SettingsSource
from workers.summariser.chain import FollowingSummariser
from workers.summariser.contract import Reply, Summariser, SummaryRequest
from workers.summariser.gate import SharedGate

ELSEWHERE_SECONDS = 0.3
"""Seconds between two checks of a job that another process works."""


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The person gave up. `withdrawn` says that nobody works the job; else a worker has it."""

    withdrawn: bool


@dataclass(frozen=True, slots=True)
class Interruptible:
    """A summariser that asks `inner`, and stops waiting once `interrupted` is set.

    A worker that stops waits for the answer that is paid for; a person does not.
    """

    inner: Summariser
    interrupted: Event

    @property
    def model(self) -> str:
        return self.inner.model

    @property
    def fingerprint(self) -> int:
        return self.inner.fingerprint

    def room(self, summary_tokens: int) -> int:
        """See `Summariser`."""
        return self.inner.room(summary_tokens)

    def summarise(self, request: SummaryRequest, stop: Callable[[], bool]) -> Reply:
        """See `Summariser`; raises `Stopped` when interrupted."""
        return self.inner.summarise(request, lambda: stop() or self.interrupted.is_set())

    def close(self) -> None:
        """Close `inner`."""
        self.inner.close()


class PassSteps:
    """Turns the points that a job passes into steps: who is asked, how much is answered."""

    def __init__(self, progress: Steps, *, model: str, requests: int) -> None:
        self._progress = progress
        self._model = model
        self._requests = requests
        self._answered = 0

    def __call__(self, point: str) -> None:
        match point:
            case "planned":
                self._progress.step(f"{self._model} writes the summary")
            case "replied":
                self._answered += 1
                if self._requests > 1:
                    of = f"{self._answered} of about {self._requests} requests"
                    self._progress.step(f"{self._model} writes the summary, {of} done")
            case "gave-up":
                self._progress.step("no attempt is left")
            case "before-commit":
                self._progress.step("storing the result")


@contextmanager
def open_worker(
    database: Database, source: SettingsSource, secrets: Mapping[str, str], interrupted: Event
) -> Iterator[WorkerContext]:
    """Open what jobs need in this process, with a summariser that Ctrl-C can stop."""
    summariser = Interruptible(
        FollowingSummariser(source, secrets, SharedGate(database)), interrupted
    )
    try:
        yield WorkerContext(database=database, settings=source, summariser=summariser)
    finally:
        summariser.close()


def ask(
    database: Database,
    session: SessionRecord,
    options: CompactionOptions,
    source: SettingsSource,
    *,
    notify: bool,
) -> tuple[Asked, bool]:
    """Enqueue the job, as `Gateway.compact` does, and notify workers if they are to take it.

    Returns the job, and whether an earlier request waits whose other options count instead.
    """
    settings = source.current()
    if not notify:
        settings = settings.model_copy(update={"broker_url": None})
    with database.read() as connection:
        after = attempts.last_id(connection, session.key)
    with Gateway(settings, owner=session.owner, database=database, actor=person()) as gateway:
        asked = gateway.compact(
            session.id,
            focus=options.focus or None,
            keep_last=options.keep_last,
            around=options.around,
            up_to=options.up_to,
        )
    with database.read() as connection:
        found = job_records.open_jobs(connection, session.key)
    waiting = [job for job in found if job.id == asked.job_id and not job.again]
    other = any(job.options != options.options() for job in waiting)
    return Asked(session.key, asked.job_id or 0, after, options.whole), other


def work_until_done(
    output: Output, worker: WorkerContext, asked: Asked, expected: Preview, interrupted: Event
) -> Result | Interrupted:
    """Work the job until it is done, with progress on the screen.

    After Ctrl-C nobody works it, except a worker that has it already.
    """
    with show_progress(output.progress) as progress:
        steps = PassSteps(progress, model=worker.summariser.model, requests=expected.requests)
        working = replace(worker, failpoint=steps)
        run_in_background(
            lambda: work_here(working, asked, progress, interrupted),
            interrupted,
            lambda: progress.step("stopping; Ctrl-C again ends at once"),
        )
    if interrupted.is_set():
        if withdraw(worker.database, asked.key, asked.job_id):
            return Interrupted(withdrawn=True)
        if _open_for_person(worker.database, asked) is not None:
            return Interrupted(withdrawn=False)
    return read_result(worker.database, asked)


def run_in_background(
    action: Callable[[], None], interrupted: Event, on_interrupt: Callable[[], None]
) -> None:
    """Run `action` in a thread and wait for its end; raises what it raises.

    Ctrl-C sets `interrupted`, which the action must heed, and calls `on_interrupt`; a second one
    is raised here at once.
    """
    ended = Event()
    errors: list[BaseException] = []

    def run() -> None:
        try:
            action()
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            errors.append(error)
        finally:
            ended.set()

    Thread(target=run, name="afterturn-compact", daemon=True).start()
    try:
        ended.wait()
    except KeyboardInterrupt:
        interrupted.set()
        on_interrupt()
        ended.wait()
    if errors:
        raise errors[0]


def work_here(worker: WorkerContext, asked: Asked, progress: Steps, interrupted: Event) -> None:
    """Work a job until nothing of what the person asked for is left to do.

    Waits for a job that another process has claimed, and between two attempts as long as the job
    does. Returns early when `interrupted` is set. Raises `StorageError`, and any unexpected error
    of the job.
    """
    announced = False
    while not interrupted.is_set():
        pause = 0.0
        match work(worker, asked.job_id):
            case Crashed(error):
                raise error
            case NotClaimed():
                pause = ELSEWHERE_SECONDS
            case Worked() as done:
                publish_signals(worker.settings.current().broker_url, done.signals)
                if (failed := done.failed) is not None:
                    # The detail names the model that was asked last.
                    why = failed.detail or failed.model
                    progress.remark(f"No summary: {failed.error_class}, {why}.")
        job = _open_for_person(worker.database, asked)
        if job is None:
            return
        if job.left_ms:
            progress.step(f"waiting {duration(job.left_ms)} before the next attempt")
            pause = job.left_ms / 1000
        elif pause and not announced:
            announced = True
            progress.remark("A worker has the session now; waiting for it.")
        interrupted.wait(pause)


def _open_for_person(database: Database, asked: Asked) -> JobOverview | None:
    """Return the state of the job, None if nothing of what was asked for is left to do."""
    with database.read() as connection:
        found = job_records.open_jobs(connection, asked.key)
        state = job_records.standing(connection, database, asked.job_id)
    job = next((one for one in found if one.id == asked.job_id), None)
    return state if job is not None and _is_persons(job) else None


def _is_persons(job: JobRecord) -> bool:
    """Return whether the job is open for the person, now or after its present work."""
    return job.trigger == Trigger.MANUAL or (job.state is JobState.RUNNING and job.again)
