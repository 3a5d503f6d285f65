"""Whether everything is up, what is due and what is stuck: read once, for one screen."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from afterturn.doctor.broker import check_broker
from afterturn.doctor.finding import Finding, Status
from afterturn.doctor.guards import check_breakers, check_sessions
from afterturn.doctor.jobs import check_jobs
from afterturn.queue_look import QueueLook, look_at_queues
from afterturn.render.words import duration
from storage import bulk_runs, history
from storage.bulk_runs import Run, RunState, Tally
from storage.engine import Database
from storage.history import RecentAttempts, SessionTotals
from workers.settings import Settings

HOUR_MS = 3_600_000

_SCHEDULE, _DATABASE = "schedule", "database"
_LATE = 6
"""Ticks of the reconciler that may be missing before somebody should look."""


@dataclass(frozen=True, slots=True)
class Overall:
    """One look. `findings` are those of the doctor that need no waiting, `database_ms` how long a
    question took, `run` is the bulk run that is under way or stopped."""

    place: str
    database_ms: float
    findings: tuple[Finding, ...]
    queues: tuple[QueueLook, ...]
    stock: SessionTotals
    recent: RecentAttempts
    run: tuple[Run, Tally] | None

    @property
    def troubles(self) -> list[Finding]:
        """What somebody should look at."""
        return [one for one in self.findings if one.status is not Status.OK]

    @property
    def well(self) -> bool:
        return not self.troubles


def look(database: Database, settings: Settings, secrets: Mapping[str, str]) -> Overall:
    """Look at everything. Takes some seconds at most, where a broker does not answer."""
    started = time.perf_counter()
    with database.read() as connection:
        queues = look_at_queues(connection, database)
    took = 1000 * (time.perf_counter() - started)
    with database.read() as connection:
        stock = history.session_totals(connection, database)
        recent = history.recent_attempts(connection, database, ms=HOUR_MS)
        ticks = history.since_tick_ms(connection, database)
        runs = bulk_runs.newest(connection, limit=1)
        run = next(
            (
                (one, bulk_runs.tally(connection, one.id))
                for one in runs
                if one.state is not RunState.DONE
            ),
            None,
        )
    return Overall(
        place=database.place,
        database_ms=took,
        findings=(
            Finding.ok(_DATABASE, f"{database.place} answered in {duration(took)}"),
            *check_broker(settings.broker_url),
            _schedule(ticks, settings),
            *check_jobs(database),
            *check_breakers(database, settings, secrets),
            check_sessions(database, settings.compression),
        ),
        queues=tuple(queues),
        stock=stock,
        recent=recent,
        run=run,
    )


def _schedule(ticks: Mapping[str, int], settings: Settings) -> Finding:
    """Whether a beat or the clock of `afterturn up` ticks."""
    last = min(ticks.values(), default=None)
    advice = "start one: `afterturn up`, or `celery -A schedules.app beat`"
    if last is None:
        return Finding.warn(_SCHEDULE, "no beat and no `afterturn up` has ever run here", advice)
    detail = f"last tick {duration(last)} ago"
    if last > 1000 * _LATE * settings.schedule.reconcile_seconds:
        return Finding.warn(_SCHEDULE, detail, advice)
    return Finding.ok(_SCHEDULE, detail)
