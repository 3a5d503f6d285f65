"""What runs by the clock, from beat and from within a process: each tick once."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from sqlalchemy import text as sql

from schedules.schedule import Clock, entries
from storage import scheduling
from storage.engine import Database
from storage.jobs import queue_states
from tasks.application import make_app
from tasks.embedded import EmbeddedWorker
from tasks.maintenance import tick
from tasks.names import DATABASE, MAINTENANCE, RECONCILE, RECOVER_ORPHANS, RETENTION, SCAN_IDLE
from tests.integration.workers.test_workers import Host, end, open_jobs, wait_until_quiet
from tests.support.observing.waiting import bound, wait_until
from tests.support.programs.processes import Processes
from tests.support.sessions.conversations import turn
from tests.support.sessions.gateways import gateway_on, migrated, rows_of, url_of
from tests.support.sessions.play import Play, Turn, playing
from workers.settings import ScheduleSettings, Settings, SettingsSource, WorkerSettings

IDLE: dict[str, Any] = {
    "protect_last_n": 4,
    "threshold_tokens": 2_000,
    "idle_compact_after_seconds": 3600.0,
}
HOUR = 3_600_000


@pytest.fixture
def app() -> Any:
    application = make_app("memory://", lambda: pytest.fail("no worker runs"))
    yield application
    application.close()


def taken(database: Database) -> dict[str, int]:
    """Return how many ticks of each schedule were taken."""
    query = "SELECT schedule, count(*) FROM schedule_slots GROUP BY schedule"
    return {str(row[0]): int(row[1]) for row in rows_of(database, query)}


def test_a_tick_is_done_once(database: Database, app: Celery) -> None:
    with playing(url_of(database)) as play:
        play.say(play.gateway.open_session("s"), Turn(turn(0), []))
        assert tick(app, play.context, RECONCILE, 3600.0) == "1"
        assert tick(app, play.context, RECONCILE, 3600.0) == "done already"
        assert tick(app, play.context, RECONCILE, None) == "0"
    with playing(url_of(database), offset_ms=HOUR) as play:
        assert tick(app, play.context, RECONCILE, 3600.0) == "1"


def test_a_tick_of_each_entry_does_what_it_is_for(database: Database, app: Celery) -> None:
    def found(play: Play) -> dict[str, str]:
        return {
            name: tick(app, play.context, name, None)
            for name in (RECOVER_ORPHANS, SCAN_IDLE, RETENTION)
        }

    with playing(url_of(database), **IDLE) as play:
        for number in range(12):
            play.say(play.gateway.open_session("s"), Turn(turn(number), []))
        play.work_off()
        with database.write() as connection:
            connection.execute(sql("UPDATE sessions SET decided_turns = 0"))
        assert found(play) == {RECOVER_ORPHANS: "1", SCAN_IDLE: "0", RETENTION: "0"}
        unrung = "SELECT id FROM jobs WHERE state = 'due' AND notified_at IS NULL"
        assert rows_of(database, unrung) == []
        play.work_off()
    with playing(url_of(database), offset_ms=HOUR, **IDLE) as play:
        assert found(play) == {RECOVER_ORPHANS: "0", SCAN_IDLE: "1", RETENTION: "0"}
        play.work_off()
    with playing(url_of(database), offset_ms=400 * 24 * HOUR, **IDLE) as play:
        assert int(found(play)[RETENTION]) > 0
        assert int(tick(app, play.context, DATABASE, None)) >= 0


def test_while_maintenance_is_paused_only_lost_notifications_are_looked_for(
    database: Database, app: Celery
) -> None:
    with playing(url_of(database), **IDLE) as play:
        play.say(play.gateway.open_session("s"), Turn(turn(0), []))
        with database.write() as connection:
            queue_states.pause(connection, database, [MAINTENANCE])
        for name in (RECOVER_ORPHANS, SCAN_IDLE, RETENTION, DATABASE):
            assert tick(app, play.context, name, 3600.0) == "paused"
        assert taken(database) == {}
        assert tick(app, play.context, RECONCILE, 3600.0) == "1"


def test_two_beats_tick_as_often_as_one(
    sqlite_url: str, redis_url: str, processes: Processes, tmp_path: Path
) -> None:
    every = {"reconcile_seconds": 1.0, "orphans_seconds": 2.0}
    host = Host(processes, tmp_path, sqlite_url, redis_url, schedule=every)
    with migrated(sqlite_url) as database:
        worker = host.start_worker("one")
        worker.wait_for("READY")
        folders = [tmp_path / "a", tmp_path / "b"]
        beats = []
        for folder in folders:
            folder.mkdir()
            beats.append(host.start_beat(folder))
        wait_until(lambda: taken(database).get(RECONCILE, 0) >= 5, "five seconds pass")
        end(beats[0])
        end(beats[1], worker)
        # Each tick has one row, and what a second message for it came to is in the log.
        ticks = worker.output.count("maintenance.reconcile")
        assert ticks > taken(database)[RECONCILE]
        assert "done already" in worker.output
        assert taken(database)[RECOVER_ORPHANS] <= taken(database)[RECONCILE]


@pytest.mark.parametrize("pool", [None, "threads", "prefork"])
def test_a_worker_that_starts_looks_for_what_is_due_and_for_what_has_no_job(
    sqlite_url: str, redis_url: str, processes: Processes, tmp_path: Path, pool: str | None
) -> None:
    host = Host(processes, tmp_path, sqlite_url, redis_url)
    with migrated(sqlite_url) as database, gateway_on(sqlite_url) as silent:
        for name in ("lost", "unrung"):
            session = silent.open_session(name, context_window=128_000)
            for number in range(16):
                silent.finalize_turn(session, turn(number))
            if name == "lost":
                with database.write() as connection:
                    connection.execute(sql("DELETE FROM jobs"))
        worker = host.start_worker("one") if pool is None else host.start_celery(pool)
        markers = "SELECT id FROM messages WHERE kind = 'micro' AND active = 1"
        wait_until(lambda: len(rows_of(database, markers)) == 2, "both are found")
        wait_until_quiet(database)
        # Of the processes of a pool, now and then one never ends by itself (a fault of billiard).
        if pool == "prefork":
            return
        worker.terminate()
        assert worker.wait(bound(30)) == 0


def test_the_clock_of_a_process_ticks_at_its_start_and_from_then_on(database: Database) -> None:
    schedule = ScheduleSettings(reconcile_seconds=1.0)
    settings = Settings(
        database_url=url_of(database),
        schedule=schedule,
        worker=WorkerSettings(concurrency=2, poll_seconds=0.05),
    )
    worker = EmbeddedWorker(SettingsSource.fixed(settings))
    clock = Clock(worker.app, schedule)
    worker.start()
    try:
        clock.start()
        names = {entry.task for entry in entries(schedule)}
        wait_until(lambda: set(taken(database)) == names, "everything ran at the start")
        wait_until(lambda: taken(database)[RECONCILE] >= 3, "the reconciler ran again")
        assert taken(database)[RETENTION] <= 2
    finally:
        clock.stop()
        worker.stop()
    assert open_jobs(database) == []


def test_a_clock_that_was_never_started_can_be_stopped(app: Celery) -> None:
    Clock(app, ScheduleSettings()).stop()


def test_a_clock_outlives_its_broker(database: Database) -> None:
    app = make_app("redis://127.0.0.1:1/0", lambda: pytest.fail("no worker runs"))
    clock = Clock(app, ScheduleSettings(reconcile_seconds=1.0))
    clock.start()
    time.sleep(0.2)
    clock.stop()
    with database.write() as connection:
        assert scheduling.take(connection, database, RECONCILE, every_ms=1000)
    app.close()
