"""Workers that are asked to stop: what runs is finished within a bound, the rest is given back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from storage.engine import Database
from tests.integration.workers.test_workers import (
    Host,
    asking,
    end,
    has_answered,
    markers,
    open_jobs,
    say_turns,
    wait_until_quiet,
)
from tests.support.model.behaviours import stream_text
from tests.support.model.server import ModelServer
from tests.support.model.turn import Turn
from tests.support.observing.waiting import bound, wait_until
from tests.support.programs.processes import Processes
from tests.support.sessions.gateways import gateway_on, migrated, rows_of

POOLS = ("threads", "prefork")
UNFINISHED = "SELECT kind, state, attempt FROM jobs WHERE state <> 'done' ORDER BY id"


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@dataclass(frozen=True)
class Slowly:
    """A good answer, some time after the request."""

    seconds: float

    def play(self, turn: Turn) -> None:
        turn.pause(self.seconds)
        stream_text(turn, turn.good_answer())


@pytest.mark.parametrize("pool", POOLS)
def test_a_worker_that_is_out_of_time_gives_its_job_back_as_if_it_had_never_had_it(
    sqlite_url: str,
    redis_url: str,
    processes: Processes,
    tmp_path: Path,
    model: ModelServer,
    pool: str,
) -> None:
    host = Host(
        processes,
        tmp_path,
        sqlite_url,
        redis_url,
        auxiliary=asking(model),
        worker={"lease_seconds": 600.0, "stop_seconds": 1.0},
    )
    with (
        migrated(sqlite_url) as database,
        gateway_on(sqlite_url, broker_url=redis_url) as gateway,
    ):
        has_answered(database, model)
        worker = host.start_celery(pool)
        with model.hold():
            # One job runs, another one waits in the queue for the only place.
            for place, name in enumerate(("s", "t")):
                say_turns(gateway, gateway.open_session(name, context_window=128_000), place, 16)
            model.wait_for_requests(1)
            worker.terminate()
            wait_until(lambda: not running(database), "the job is given back")
            model.wait_until_idle()
            assert (len(model.requests), model.given_up) == (1, 1)
        left = rows_of(database, UNFINISHED)
        assert {tuple(row[1:]) for row in left} == {("due", 0)}
        assert rows_of(database, "SELECT count(*) FROM attempts") == [(0,)]
        assert rows_of(database, "SELECT failed_last_at FROM jobs WHERE failed_last_at > 0") == []
        if pool == "threads":
            assert worker.wait(bound(30)) == 0


@pytest.mark.parametrize("pool", POOLS)
def test_within_its_time_it_commits_what_the_model_says_and_begins_no_further_pass(
    sqlite_url: str,
    redis_url: str,
    processes: Processes,
    tmp_path: Path,
    model: ModelServer,
    pool: str,
) -> None:
    host = Host(processes, tmp_path, sqlite_url, redis_url, auxiliary=asking(model))
    with (
        migrated(sqlite_url) as database,
        gateway_on(sqlite_url, broker_url=redis_url) as gateway,
    ):
        worker = host.start_celery(pool)
        with model.hold():
            say_turns(gateway, gateway.open_session("s", context_window=128_000), 0, 16)
            model.wait_for_requests(1)
            worker.terminate()
            worker.wait_for("Warm shutdown")
        wait_until(lambda: not running(database), "the job is given back")
        assert len(model.requests) == 1
        assert rows_of(database, "SELECT outcome FROM attempts") == [("absorbed",)]
        assert rows_of(database, UNFINISHED) == [("micro", "due", 0)]


def running(database: Database) -> list[tuple[object, ...]]:
    return rows_of(database, "SELECT id FROM jobs WHERE state = 'running'")


def test_a_rolling_restart_of_all_workers_under_load_loses_nothing_and_pays_for_nothing_twice(
    postgres_url: str, redis_url: str, processes: Processes, tmp_path: Path, model: ModelServer
) -> None:
    model.always(Slowly(0.1))
    host = Host(
        processes,
        tmp_path,
        postgres_url,
        redis_url,
        auxiliary=asking(model),
        schedule={"reconcile_seconds": 1.0},
    )
    names = [f"s{place}" for place in range(6)]
    with (
        migrated(postgres_url) as database,
        gateway_on(postgres_url, broker_url=redis_url) as gateway,
    ):
        has_answered(database, model)
        children = [host.start_beat(), *(host.start_worker(f"old-{n}") for n in range(2))]
        for worker in children[1:]:
            worker.wait_for("READY")
        sessions = [gateway.open_session(name, context_window=128_000) for name in names]

        def say(first: int, count: int) -> None:
            # No two sessions hold the same, so no two ask the same.
            for place, session in enumerate(sessions):
                say_turns(gateway, session, 100 * place + first, count)

        say(0, 16)
        for number in (1, 2):
            asked = len(model.requests)
            say(8 + 8 * number, 8)
            model.wait_for_requests(asked + 1)
            assert open_jobs(database)
            children[number].terminate()
            assert children[number].wait(bound(60)) == 0
            children[number] = host.start_worker(f"new-{number}")
            children[number].wait_for("READY")
        say(32, 8)
        wait_until_quiet(database, 120)
        end(*children)
        asked_for = [json.dumps(request["messages"]) for request in model.requests]
        assert len(asked_for) == len(set(asked_for)) > 2 * len(names)
        assert len(markers(database)) == len(names)
        assert rows_of(database, "SELECT count(*) FROM answers") == [(0,)]
        # Nobody was taken for dead.
        assert rows_of(database, "SELECT id FROM jobs WHERE failed_last_at IS NOT NULL") == []
        assert rows_of(database, "SELECT DISTINCT state FROM jobs") == [("done",)]
