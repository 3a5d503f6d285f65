"""The status of a deployment: its queues, and whatever an operator should look at."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from afterturn.broker import BrokerSilent, TransportMissing, broker_application, queue_lengths
from afterturn.doctor.deployment import check_broker
from afterturn.doctor.finding import Finding, Status
from afterturn.doctor.jobs import check_breakers, check_jobs, check_sessions
from afterturn.render.console import Output
from afterturn.render.fields import cell, columns
from afterturn.render.words import NONE, duration, moment, moment_utc, number
from storage import bulk_runs, history
from storage.bulk_runs import Run, RunState, Tally
from storage.engine import Database
from storage.history import RecentAttempts, SessionTotals
from storage.jobs import backlog, queue_states
from storage.jobs.backlog import Backlog
from storage.jobs.queue_states import PausedQueue
from tasks.names import QUEUES
from workers.settings import Settings
from workers.settings.urls import masked_url


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """A queue: its jobs, and since when and why it is paused, None where it is not."""

    name: str
    jobs: Backlog
    paused: PausedQueue | None


@dataclass(frozen=True, slots=True)
class BrokerStatus:
    """The broker at `place` (a URL without secrets): messages by queue; None where it did not
    answer, and then why not."""

    place: str
    messages: Mapping[str, int] | None
    problem: str = ""


def fetch_queues(connection: Connection, database: Database) -> list[QueueStatus]:
    """Return every queue of this version, then those that only the database knows."""
    jobs = backlog.by_queue(connection, database)
    paused = {one.name: one for one in queue_states.paused(connection)}
    others = sorted((jobs.keys() | paused.keys()) - set(QUEUES))
    return [
        QueueStatus(name, jobs.get(name, Backlog()), paused.get(name))
        for name in (*QUEUES, *others)
    ]


def fetch_broker(url: str) -> BrokerStatus:
    """Ask the broker, for some seconds at the most."""
    place = masked_url(url)
    try:
        with broker_application(url) as app:
            return BrokerStatus(place, queue_lengths(app))
    except TransportMissing as error:
        return BrokerStatus(place, None, error.problem)
    except BrokerSilent as error:
        return BrokerStatus(place, None, str(error))


def show_queues(output: Output, queues: list[QueueStatus], broker: BrokerStatus | None) -> None:
    """Print a table of queues, and a notice where the broker does not answer."""
    messages = broker.messages if broker is not None else None
    table = columns(
        "queue", "state", ">due", ">oldest", ">waiting", ">running", ">dead",
        *([">messages"] if messages is not None else []),
    )  # fmt: skip
    for queue in queues:
        jobs = queue.jobs
        table.add_row(
            cell(queue.name),
            cell(_state(queue.paused)),
            number(jobs.due),
            NONE if jobs.oldest_ms is None else duration(jobs.oldest_ms),
            number(jobs.waiting),
            number(jobs.running),
            number(jobs.dead),
            *([number(messages.get(queue.name))] if messages is not None else []),
        )
    output.show(table)
    if broker is not None and broker.messages is None:
        output.notice(
            f"The broker {broker.place} does not answer ({broker.problem}). Jobs are kept in the "
            "database, and workers are notified when it is back.",
            style="yellow",
        )


def queues_document(queues: list[QueueStatus], broker: BrokerStatus | None) -> dict[str, Any]:
    """Return the same for programs."""
    return {
        "queues": [
            {
                "name": queue.name,
                "paused": queue.paused is not None,
                "paused_since": moment_utc(queue.paused.since) if queue.paused else None,
                "paused_reason": queue.paused.reason if queue.paused else None,
                "due": queue.jobs.due,
                "waiting": queue.jobs.waiting,
                "running": queue.jobs.running,
                "dead": queue.jobs.dead,
                "oldest_due_seconds": None
                if queue.jobs.oldest_ms is None
                else queue.jobs.oldest_ms / 1000,
                "messages": broker.messages.get(queue.name)
                if broker is not None and broker.messages is not None
                else None,
            }
            for queue in queues
        ],
        "broker": None
        if broker is None
        else {"url": broker.place, "problem": broker.problem or None},
    }


def _state(paused: PausedQueue | None) -> str:
    if paused is None:
        return "works"
    why = f" ({paused.reason})" if paused.reason else ""
    return f"paused since {moment(paused.since)}{why}"


HOUR_MS = 3_600_000

_SCHEDULE, _DATABASE = "schedule", "database"
_LATE = 6
"""Ticks of the reconciler that may be missing before somebody should look."""


@dataclass(frozen=True, slots=True)
class DeploymentStatus:
    """A snapshot. `findings` are those of the doctor that need no waiting, `database_ms` how long a
    query took, `run` is the bulk run that is under way or stopped."""

    place: str
    database_ms: float
    findings: tuple[Finding, ...]
    queues: tuple[QueueStatus, ...]
    stock: SessionTotals
    recent: RecentAttempts
    run: tuple[Run, Tally] | None

    @property
    def troubles(self) -> list[Finding]:
        """The findings that an operator should look at."""
        return [one for one in self.findings if one.status is not Status.OK]

    @property
    def well(self) -> bool:
        return not self.troubles


def read_status(
    database: Database, settings: Settings, secrets: Mapping[str, str]
) -> DeploymentStatus:
    """Take a snapshot. Takes some seconds at most, where a broker does not answer."""
    started = time.perf_counter()
    with database.read() as connection:
        queues = fetch_queues(connection, database)
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
    return DeploymentStatus(
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
    """Check that a beat or the clock of `afterturn up` ticks."""
    last = min(ticks.values(), default=None)
    advice = "start one: `afterturn up`, or `celery -A schedules.app beat`"
    if last is None:
        return Finding.warn(_SCHEDULE, "no beat and no `afterturn up` has ever run here", advice)
    detail = f"last tick {duration(last)} ago"
    if last > 1000 * _LATE * settings.schedule.reconcile_seconds:
        return Finding.warn(_SCHEDULE, detail, advice)
    return Finding.ok(_SCHEDULE, detail)
