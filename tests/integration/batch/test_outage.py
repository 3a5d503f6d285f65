"""An endpoint that is down for everyone: a hundred sessions ask little, and all are served later.

Real jobs, the real client and a real HTTP server; the clock is the database's, moved by tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from producers import Session
from storage import endpoints, jobs
from storage.conversations.rows import Kind
from storage.engine import Database
from storage.jobs import JobKind
from tests.support.model.behaviours import Good, Status
from tests.support.model.server import ModelServer
from tests.support.sessions.conversations import turn
from tests.support.sessions.play import Play, playing
from tests.support.sessions.stored_session import later
from workers.policy.failures import RetryPolicy
from workers.policy.triggers import BATCH_QUEUE, RULES, Trigger
from workers.runtime.context import WorkerContext
from workers.runtime.jobs import Worked, work
from workers.settings import AuxiliarySettings, Settings, SettingsSource
from workers.summariser.breaker import RECHECK_CLOSED_MS
from workers.summariser.chain import FollowingSummariser
from workers.summariser.endpoints import SummariserSettings
from workers.summariser.gate import SharedGate

SESSIONS = 100
THREADS = 8
MOST_REQUESTS = 10
MINUTE_MS = 60_000
OUTAGE_MS = 40 * MINUTE_MS
"""Eight pauses of the breaker: half a minute, doubled up to ten."""
SLACK_MS = 1000
"""A wait that ends counts from the moment at which the job was given back."""
SMALL: dict[str, Any] = {"threshold_tokens": 1000, "protect_last_n": 3, "micro_compact": False}


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running


@contextmanager
def outage(url: str, model: ModelServer) -> Iterator[tuple[Play, Settings]]:
    """Yield a play whose summariser is `model`, behind the breaker that all workers share."""
    with playing(url, retry=RetryPolicy(), **SMALL) as play:
        endpoint = SummariserSettings(model="m", base_url=model.base_url)
        now = play.context.settings.current()
        yield play, now.model_copy(update={"auxiliary": AuxiliarySettings(compression=endpoint)})


def due_sessions(play: Play, trigger: Trigger, count: int) -> list[Session]:
    """Return sessions with a long middle and a batch job each."""
    opened = []
    for number in range(count):
        session = play.gateway.open_session(f"s{number}", context_window=16_000)
        said = [m for step in range(6) for m in turn(step, words=60)]
        play.gateway.finalize_turn(session, said)
        opened.append(session)
    play.work_off()
    for session in opened:
        with play.database.write() as connection:
            jobs.enqueue(
                connection,
                play.database,
                session.key,
                kind=JobKind.BATCH,
                queue=BATCH_QUEUE,
                trigger=trigger,
                priority=RULES[trigger].priority,
            )
    return opened


def work_at_once(context: WorkerContext, due: list[int]) -> list[Worked]:
    with ThreadPoolExecutor(THREADS) as pool:
        return [done for done in pool.map(partial(work, context), due) if isinstance(done, Worked)]


def due_now(database: Database) -> list[int]:
    with database.write() as connection:
        found = jobs.notify_due(connection, database, again_after_ms=-1, limit=1000)
    return [job.id for job in found if job.kind is JobKind.BATCH]


@contextmanager
def worker_at(play: Play, settings: Settings, passed_ms: int) -> Iterator[WorkerContext]:
    """Yield a new process, so many milliseconds later by the database's clock."""
    database = later(play.database, passed_ms)
    source = SettingsSource.fixed(settings)
    summariser = FollowingSummariser(source, {}, SharedGate(database))
    yield replace(play.context, database=database, settings=source, summariser=summariser)
    summariser.close()


def pause_ms(database: Database) -> int:
    """Return how long nobody asks the model."""
    with database.read() as connection:
        (model,) = endpoints.states(connection, database)
    return model.open_for_ms


def test_a_hundred_sessions_send_ten_requests_in_a_long_outage_and_are_all_served_after_it(
    database_url: str, model: ModelServer
) -> None:
    model.always(Status(429))
    with outage(database_url, model) as (play, settings):
        sessions = due_sessions(play, Trigger.AFTER_RESPONSE, SESSIONS)
        # Whenever somebody may ask, everybody looks; later on those that would look first.
        passed_ms, looks = 0, 0
        while passed_ms < OUTAGE_MS:
            with worker_at(play, settings, passed_ms) as context:
                due = due_now(context.database)
                looking = due if looks < 2 * SESSIONS else due[: 3 * THREADS]
                looks += len(work_at_once(context, looking))
                passed_ms += max(pause_ms(context.database), RECHECK_CLOSED_MS) + SLACK_MS
        assert looks > 3 * SESSIONS
        assert 3 <= len(model.requests) <= MOST_REQUESTS

        model.always(Good())
        while play.rows("SELECT 1 FROM jobs WHERE kind = 'batch' AND state = 'due'"):
            with worker_at(play, settings, passed_ms) as context:
                work_at_once(context, due_now(context.database))
            passed_ms += MINUTE_MS
            assert passed_ms < 2 * OUTAGE_MS
        for session in sessions:
            (marker,) = [row for row in play.view(session) if row.kind.is_marker]
            assert marker.kind is Kind.BATCH
            assert "placeholder" not in (marker.summary or "").lower()


def test_sessions_over_an_error_get_a_placeholder_at_once_while_the_breaker_is_open(
    sqlite_url: str, model: ModelServer
) -> None:
    model.always(Status(503))
    with outage(sqlite_url, model) as (play, settings):
        sessions = due_sessions(play, Trigger.CONTEXT_OVERFLOW, 20)
        with worker_at(play, settings, 0) as context:
            for job in due_now(context.database):
                work(context, job)
        # Those that asked before the third failure try once more; nobody asks any more.
        with worker_at(play, settings, 10_000) as context:
            for job in due_now(context.database):
                work(context, job)
        assert len(model.requests) == 3
        for session in sessions:
            markers = [row for row in play.view(session) if row.kind.is_marker]
            assert len(markers) == 1
            assert "placeholder" in (markers[0].summary or "").lower()
