"""Workers, reconciler and schedule inside one process, without any server."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from producers import DatabaseUnavailable, Gateway
from storage.engine import Database
from tasks.embedded import EmbeddedWorker
from tests.support.model.server import ModelServer
from tests.support.observing.waiting import bound, wait_until
from tests.support.servers.servers import RedisServer
from tests.support.sessions.conversations import turn
from tests.support.sessions.gateways import gateway_on, migrated, rows_of, url_of
from workers.settings import (
    AuxiliarySettings,
    CompressionSettings,
    Settings,
    SettingsSource,
    SummariserSettings,
    WorkerSettings,
)

COMPRESSION: dict[str, Any] = {
    "protect_last_n": 8,
    "threshold_tokens": 4000,
    "micro_compact_min_tokens": 600,
}


def settings_for(url: str, **more: Any) -> Settings:
    return Settings(
        database_url=url,
        compression=CompressionSettings(**COMPRESSION),
        worker=WorkerSettings(concurrency=4, poll_seconds=0.05),
        **more,
    )


@contextmanager
def embedded(settings: Settings) -> Iterator[EmbeddedWorker]:
    worker = EmbeddedWorker(SettingsSource.fixed(settings))
    worker.start()
    try:
        yield worker
    finally:
        worker.stop()


def say_turns(gateway: Gateway, name: str, numbers: range) -> None:
    session = gateway.open_session(name, context_window=128_000)
    for number in numbers:
        gateway.finalize_turn(session, turn(number))


def markers(database: Database) -> int:
    found = rows_of(database, "SELECT id FROM messages WHERE kind = 'micro' AND active = 1")
    return len(found)


def nothing_is_open(database: Database) -> bool:
    return not rows_of(database, "SELECT id FROM jobs WHERE state IN ('due', 'running')")


def our_threads() -> set[str]:
    return {t.name for t in threading.enumerate() if t.name.startswith("afterturn")}


def test_an_embedded_worker_may_be_started_and_stopped_again_and_again(
    database: Database,
) -> None:
    settings = settings_for(url_of(database))
    before = threading.active_count()
    passed: list[int] = []
    with gateway_on(url_of(database)) as gateway:
        for run in range(3):
            with embedded(settings):
                say_turns(gateway, f"s{run}", range(16))
                wait_until(lambda: markers(database) > len(passed), "a pass is made")
                wait_until(lambda: nothing_is_open(database), "all is done")
            passed.append(run)
            assert our_threads() == set()
    assert rows_of(database, "SELECT count(*) FROM jobs WHERE state = 'dead'") == [(0,)]
    # Pool threads of a run end with it.
    wait_until(lambda: threading.active_count() <= before + 2, "threads have ended")


def test_work_that_waited_is_done_at_the_start_without_a_notification(sqlite_url: str) -> None:
    with migrated(sqlite_url) as database, gateway_on(sqlite_url) as gateway:
        say_turns(gateway, "s", range(16))
        with embedded(settings_for(sqlite_url)):
            wait_until(lambda: markers(database) == 1, "what waited is done")
            # And what comes later, within a second or so.
            started = time.monotonic()
            say_turns(gateway, "t", range(16))
            wait_until(lambda: markers(database) == 2, "later work is done")
            assert time.monotonic() - started < bound(10)
            wait_until(lambda: nothing_is_open(database), "all is done")


def test_a_stop_waits_for_the_models_answer_and_commits_it(sqlite_url: str) -> None:
    with (
        migrated(sqlite_url) as database,
        gateway_on(sqlite_url) as gateway,
        ModelServer() as model,
    ):
        asked = AuxiliarySettings(
            compression=SummariserSettings(model="test-model", base_url=model.base_url)
        )
        worker = EmbeddedWorker(SettingsSource.fixed(settings_for(sqlite_url, auxiliary=asked)))
        worker.start()
        stopping = threading.Thread(target=worker.stop)
        with model.hold():
            say_turns(gateway, "s", range(16))
            model.wait_for_requests(1)
            stopping.start()
            stopping.join(0.3)
            assert stopping.is_alive()
        stopping.join(180)
        assert not stopping.is_alive()
        worker.stop()
        assert len(model.requests) == 1
        assert rows_of(database, "SELECT outcome FROM attempts") == [("absorbed",)]
        # Turns that ended while the job ran may wait for their own decision.
        left = rows_of(database, "SELECT kind, state FROM jobs WHERE state <> 'done'")
        assert ("micro", "due") in left
        assert set(left) <= {("micro", "due"), ("turn", "due")}


def test_a_broker_that_is_configured_is_used_and_not_needed(
    sqlite_url: str, own_redis: RedisServer
) -> None:
    settings = settings_for(sqlite_url, broker_url=own_redis.url)
    with (
        migrated(sqlite_url) as database,
        gateway_on(sqlite_url, broker_url=own_redis.url) as gateway,
        embedded(settings),
    ):
        say_turns(gateway, "s", range(16))
        wait_until(lambda: markers(database) == 1, "notified through the broker")
        wait_until(lambda: nothing_is_open(database), "all is done")


def test_a_broker_that_is_not_there_is_reported_in_time(
    sqlite_url: str, own_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.embedded.START_SECONDS", 1.0)
    own_redis.stop()
    with migrated(sqlite_url):
        worker = EmbeddedWorker(
            SettingsSource.fixed(settings_for(sqlite_url, broker_url=own_redis.url))
        )
        started = time.monotonic()
        with pytest.raises(TimeoutError, match="BROKER_URL"):
            worker.start()
        assert time.monotonic() - started < bound(10)


def test_a_database_that_cannot_be_used_is_reported_before_anything_starts(tmp_path: Path) -> None:
    path = tmp_path / "afterturn.db"
    path.write_bytes(b"not a database, " * 1000)
    worker = EmbeddedWorker(SettingsSource.fixed(settings_for(f"sqlite:///{path}")))
    with pytest.raises(DatabaseUnavailable):
        worker.start()
    worker.stop()
    assert our_threads() == set()
