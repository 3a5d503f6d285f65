"""A job that kills its process is started three times and no more, in every pool."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import text as sql

from storage.engine import Database
from storage.jobs import MAX_CRASHES
from tests.integration.workers.test_workers import Host, end, say_turns
from tests.support.observing.waiting import bound, wait_until
from tests.support.programs.processes import Processes
from tests.support.sessions.gateways import gateway_on, migrated, rows_of

POISON = "SELECT state FROM jobs WHERE kind = 'micro'"
FENCE = "SELECT fence FROM jobs WHERE kind = 'micro'"
OF_OTHERS = (
    'SELECT state FROM jobs JOIN sessions ON sessions."key" = jobs.session_key'
    " WHERE sessions.id = 't'"
)

POISONED = "tests.support.programs.poisoned_worker"


@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_a_job_that_kills_its_process_is_dead_after_three_starts_and_is_not_started_again(
    sqlite_url: str, redis_url: str, processes: Processes, tmp_path: Path, pool: str
) -> None:
    host = Host(processes, tmp_path, sqlite_url, redis_url, schedule={"reconcile_seconds": 1.0})
    with (
        migrated(sqlite_url) as database,
        gateway_on(sqlite_url, broker_url=redis_url) as gateway,
    ):
        worker, beat = host.start_celery(pool, app=POISONED), host.start_beat()
        say_turns(gateway, gateway.open_session("s", context_window=128_000), 0, 16)
        for start in range(1, MAX_CRASHES + 1):
            wait_until(partial(has_begun, database, start), "the job is started", 60)
            if pool == "threads":
                assert worker.wait(bound(30)) < 0
                worker = host.start_celery(pool, app=POISONED)
            let_leases_end(database)
        wait_until(lambda: rows_of(database, POISON) == [("dead",)], "it is given up", 60)
        # Its worker lives and works for others; nobody starts it again.
        say_turns(gateway, gateway.open_session("t", context_window=128_000), 100, 1)
        wait_until(lambda: rows_of(database, OF_OTHERS) == [("done",)], "others are served", 60)
        assert worker.running
        assert has_begun(database, MAX_CRASHES)
        assert rows_of(database, "SELECT attempt, reason FROM jobs WHERE kind = 'micro'") == [
            (MAX_CRASHES, "the worker went silent")
        ]
        end(beat)


def has_begun(database: Database, times: int) -> bool:
    """Return whether the job was begun that often: every claim has a new fence."""
    return rows_of(database, FENCE) == [(times,)]


def let_leases_end(database: Database) -> None:
    with database.write() as connection:
        connection.execute(sql("UPDATE jobs SET lease_until = 1 WHERE state = 'running'"))
