"""Have a session compacted because a person asks, and see it through here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import Event

from afterturn.actor import person
from afterturn.compaction.background import until_done
from afterturn.compaction.interruptible import Interruptible
from afterturn.compaction.progress import Steps, show_progress
from afterturn.compaction.result import Result, read_result
from afterturn.compaction.working import Asked, standing_of, work_here
from afterturn.console import Output
from producers import Gateway
from storage import attempts, job_records
from storage.engine import Database
from storage.sessions import SessionRecord
from workers.batch.placeholders import withdraw
from workers.batch.preview import Preview
from workers.batch.span import CompactionOptions
from workers.runtime.context import Workshop
from workers.settings import SettingsSource
from workers.summariser.chain import FollowingSummariser
from workers.summariser.gate import SharedGate


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The person gave up. `withdrawn` says that nobody works the job; else a worker has it."""

    withdrawn: bool


@contextmanager
def open_shop(
    database: Database, source: SettingsSource, secrets: Mapping[str, str], interrupted: Event
) -> Iterator[Workshop]:
    """What jobs work with in this process, with a summariser that Ctrl-C can stop."""
    summariser = Interruptible(
        FollowingSummariser(source, secrets, SharedGate(database)), interrupted
    )
    try:
        yield Workshop(database=database, settings=source, summariser=summariser)
    finally:
        summariser.close()


def ask(
    database: Database,
    session: SessionRecord,
    wishes: CompactionOptions,
    source: SettingsSource,
    *,
    ringing: bool,
) -> tuple[Asked, bool]:
    """Make the job due, as `Gateway.compact` does, and ring for it if workers are to take it.

    Says too whether an earlier request with other wishes waits, whose wishes count.
    """
    settings = source.current()
    if not ringing:
        settings = settings.model_copy(update={"broker_url": None})
    with database.read() as connection:
        after = attempts.last_id(connection, session.key)
    with Gateway(settings, owner=session.owner, database=database, actor=person()) as gateway:
        asked = gateway.compact(
            session.id,
            focus=wishes.focus or None,
            keep_last=wishes.keep_last,
            around=wishes.around,
            up_to=wishes.up_to,
        )
    with database.read() as connection:
        found = job_records.open_jobs(connection, session.key)
    waiting = [job for job in found if job.id == asked.job_id and not job.again]
    other = any(job.options != wishes.options() for job in waiting)
    return Asked(session.key, asked.job_id or 0, after, wishes.whole), other


def see_through(
    output: Output, shop: Workshop, asked: Asked, seen: Preview, interrupted: Event
) -> Result | Interrupted:
    """Work the job to its end, with progress on the screen. After Ctrl-C nobody works it, but for
    a worker that has it already."""
    with show_progress(output.progress) as progress:
        steps = Steps(progress, model=shop.summariser.model, requests=seen.requests)
        working = replace(shop, reach=steps)
        until_done(
            lambda: work_here(working, asked, progress, interrupted),
            interrupted,
            lambda: progress.step("stopping; Ctrl-C again ends at once"),
        )
    if interrupted.is_set():
        if withdraw(shop.database, asked.key, asked.job_id):
            return Interrupted(withdrawn=True)
        if standing_of(shop.database, asked) is not None:
            return Interrupted(withdrawn=False)
    return read_result(shop.database, asked)
