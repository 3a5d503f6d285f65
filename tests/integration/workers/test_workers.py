"""Real worker processes on a real broker: all that is due is done, once, and in order."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from producers import Gateway, Session
from storage.conversations import cursors
from storage.conversations.cursors import CursorName
from storage.engine import Database
from tests.support.model.server import ModelServer
from tests.support.observing.job_log import begin_log, check_one_at_a_time, read_log
from tests.support.observing.waiting import bound, wait_until
from tests.support.programs.gateway import FIRST_NUMBER
from tests.support.programs.processes import Child, Processes
from tests.support.sessions.conversations import turn
from tests.support.sessions.gateways import contents, gateway_on, migrated, rows_of
from tests.support.sessions.play import Play, Turn, micro_markers, person_rows, playing, shape
from workers.summariser.endpoints import route_name
from workers.summariser.gate import Permit, SharedGate
from workers.summariser.rate_limits import Limits

COMPRESSION: dict[str, Any] = {
    "protect_last_n": 8,
    "threshold_tokens": 4000,
    "micro_compact_min_tokens": 600,
}
SESSIONS = 4
TURNS = 200


class Host:
    """Starts programs that share one database, one broker and one configuration file."""

    def __init__(
        self,
        processes: Processes,
        folder: Path,
        database_url: str,
        broker_url: str | None,
        **blocks: Mapping[str, Any],
    ) -> None:
        config = folder / "config.yaml"
        config.write_text(
            yaml.safe_dump({"compression": COMPRESSION, "worker": {"lease_seconds": 5.0}, **blocks})
        )
        self._processes = processes
        self._folder = folder
        self._environment = {"DATABASE_URL": database_url, "AFTERTURN_CONFIG": str(config)}
        if broker_url is not None:
            self._environment["BROKER_URL"] = broker_url

    def start(self, *words: str) -> Child:
        return self._processes.python("-m", *words, env=self._environment)

    def start_worker(self, name: str) -> Child:
        return self.start("tests.support.programs.worker", "--name", name)

    def start_celery(self, pool: str, *, app: str = "tasks.app") -> Child:
        """Start a worker by Celery's own command; it works one job at a time."""
        return self.start(
            *("celery", "-A", app, "worker", "--pool", pool),
            *("--concurrency", "1", "--without-gossip", "--without-mingle"),
        )

    def start_beat(self, folder: Path | None = None) -> Child:
        schedule = str((folder or self._folder) / "beat")
        return self.start(
            "celery", "-A", "schedules.app", "beat", "--schedule", schedule, "--pidfile", ""
        )


def end(beat: Child, *workers: Child) -> None:
    """Stop them; workers have to end well. Beat may stumble over its own file when it is asked to
    stop in the middle of a tick."""
    for child in (beat, *workers):
        child.terminate()
    assert [worker.wait(bound(60)) for worker in workers] == [0] * len(workers)
    beat.wait(60)


def open_jobs(database: Database) -> list[tuple[Any, ...]]:
    return rows_of(database, "SELECT kind, state FROM jobs WHERE state IN ('due', 'running')")


def wait_until_quiet(database: Database, seconds: float = 60.0) -> None:
    wait_until(lambda: not open_jobs(database), "no job is open", seconds)


@pytest.fixture(scope="module")
def sequential(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Return what the same turns come to in one process, each worked off before the next comes."""
    url = f"sqlite:///{tmp_path_factory.mktemp('sequential') / 'afterturn.db'}"
    with playing(url, **COMPRESSION) as play:
        found = {}
        for place in range(SESSIONS):
            session = play.gateway.open_session(f"s{place}", context_window=128_000)
            for number in range(TURNS // SESSIONS):
                play.say(session, Turn(turn(FIRST_NUMBER + number), [None] * 4))
                play.work_off()
            found[session.id] = state_of(play, session)
        return found


def state_of(play: Play, session: Session) -> dict[str, Any]:
    view = play.view(session)
    with play.database.read() as connection:
        cursor = cursors.read(connection, session.key, CursorName.MICRO)
    covered = play.rows(
        "SELECT position FROM messages WHERE session_key = :key AND kind = 'message' "
        "AND compacted = 1 ORDER BY position",
        key=session.key,
    )
    return {
        "covered": [position for (position,) in covered],
        "cursor": cursor,
        "users": person_rows(view),
        "view": shape(view),
    }


@pytest.mark.xdist_group("sequential")
def test_two_workers_come_to_what_one_sequential_run_comes_to(
    sequential: dict[str, dict[str, Any]],
    database_url: str,
    redis_url: str,
    processes: Processes,
    tmp_path: Path,
) -> None:
    host = Host(processes, tmp_path, database_url, redis_url)
    with playing(database_url, **COMPRESSION) as play:
        database = play.database
        begin_log(database)
        workers = [host.start_worker(name) for name in ("one", "two")]
        for worker in workers:
            worker.wait_for("READY")
        speaker = host.start(
            "tests.support.programs.gateway", "--sessions", str(SESSIONS), "--turns", str(TURNS)
        )
        assert speaker.wait() == 0
        wait_until_quiet(database)
        for worker in workers:
            worker.terminate()
        assert [worker.wait() for worker in workers] == [0, 0]

        said = [m for n in range(TURNS // SESSIONS) for m in turn(FIRST_NUMBER + n)]
        for place in range(SESSIONS):
            session = play.gateway.open_session(f"s{place}")
            assert state_of(play, session) == sequential[session.id]
            stored = [row.message for row in play.everything(session) if row.message is not None]
            assert [json.dumps(m) for m in stored] == [json.dumps(m) for m in said]
            assert len(micro_markers(play.view(session))) == 1
            check_attempts(database, session)
        assert len(sequential["s0"]["covered"]) > TURNS // SESSIONS
        assert open_jobs(database) == []
        assert rows_of(database, "SELECT count(*) FROM jobs WHERE state = 'dead'") == [(0,)]
        assert rows_of(database, "SELECT count(*) FROM answers") == [(0,)]
        changes = read_log(database)
        check_one_at_a_time(changes)
        runs = {line for worker in workers for line in worker.output.splitlines()}
        assert any("micro.absorb" in line for line in runs)
        for worker in workers:
            assert "succeeded" in worker.output, "one of the workers had nothing to do"


def check_attempts(database: Database, session: Session) -> None:
    """Check that the passes of a session followed each other without a gap or a repetition."""
    tries = rows_of(
        database,
        "SELECT outcome, passes, cursor, tokens_before, tokens_after FROM attempts "
        "WHERE session_key = :key ORDER BY id",
        key=session.key,
    )
    passes = [one for one in tries if one[0] in ("absorbed", "defragmented")]
    assert [one[1] for one in passes] == list(range(1, len(passes) + 1))
    places = [cursor for outcome, _, cursor, _, _ in passes if outcome == "absorbed"]
    assert places == sorted(set(places))
    assert {one[0] for one in tries} <= {"absorbed", "defragmented", "nothing_due"}


def test_a_row_without_a_notification_is_found_by_the_schedule(
    sqlite_url: str, redis_url: str, processes: Processes, tmp_path: Path
) -> None:
    host = Host(processes, tmp_path, sqlite_url, redis_url, schedule={"reconcile_seconds": 1.0})
    with migrated(sqlite_url) as database, gateway_on(sqlite_url) as silent:
        worker = host.start_worker("one")
        worker.wait_for("READY")
        beat = host.start_beat()
        # What the worker finds at its start is over by then.
        ticks = "SELECT slot FROM schedule_slots"
        wait_until(lambda: len(rows_of(database, ticks)) > 1, "the schedule ticks")
        session = silent.open_session("s", context_window=128_000)
        say_turns(silent, session, 0, 16)
        wait_until(lambda: bool(markers(database)), "the schedule finds the turn")
        wait_until_quiet(database)
        end(beat, worker)
        assert "Request" not in worker.output + beat.output


def markers(database: Database) -> list[tuple[Any, ...]]:
    return rows_of(database, "SELECT id FROM messages WHERE kind = 'micro' AND active = 1")


@pytest.fixture
def model() -> Any:
    with ModelServer() as server:
        yield server


def asking(model: ModelServer) -> dict[str, Any]:
    """Block `auxiliary` for a worker that asks `model`."""
    endpoint = {"model": "test-model", "base_url": model.base_url}
    return {"compression": endpoint}


def has_answered(database: Database, model: ModelServer) -> None:
    """Let the endpoint be one that has answered before: of a new one a single request is out."""
    gate = SharedGate(database)
    permit = gate.admit(
        route_name("test-model", model.base_url), Limits(), tokens=0, longest_seconds=1.0
    )
    assert isinstance(permit, Permit)
    gate.answered(permit, used_tokens=None)


def say_turns(gateway: Gateway, session: Session, first: int, count: int) -> None:
    for number in range(first, first + count):
        gateway.finalize_turn(session, turn(number))


def test_sigterm_waits_for_the_models_answer_commits_it_and_gives_the_rest_back(
    sqlite_url: str, redis_url: str, processes: Processes, tmp_path: Path, model: ModelServer
) -> None:
    host = Host(processes, tmp_path, sqlite_url, redis_url, auxiliary=asking(model))
    with (
        migrated(sqlite_url) as database,
        gateway_on(sqlite_url, broker_url=redis_url) as gateway,
    ):
        worker = host.start_worker("one")
        worker.wait_for("READY")
        with model.hold():
            say_turns(gateway, gateway.open_session("s", context_window=128_000), 0, 16)
            model.wait_for_requests(1)
            worker.terminate()
            worker.wait_for("Warm shutdown")
            before = contents(database)
        assert worker.wait(bound(30)) == 0
        assert before["summaries"] == []
        assert len(model.requests) == 1
        assert rows_of(database, "SELECT outcome FROM attempts") == [("absorbed",)]
        # Turns that came while it ran wait behind it.
        open_jobs = "SELECT kind, state, attempt FROM jobs WHERE state <> 'done' ORDER BY kind"
        micro, *turns = rows_of(database, open_jobs)
        assert micro == ("micro", "due", 0)
        assert turns in ([], [("turn", "due", 0)])
        # The next worker goes on where it ended, at the first notification.
        another = host.start_worker("two")
        another.wait_for("READY")
        say_turns(gateway, gateway.open_session("s"), 16, 1)
        wait_until_quiet(database)
        another.terminate()
        assert another.wait(30) == 0
        asked = [json.dumps(request["messages"]) for request in model.requests]
        assert len(asked) == len(set(asked)) > 2


def test_a_worker_killed_while_the_model_thinks_is_followed_by_another(
    postgres_url: str, redis_url: str, processes: Processes, tmp_path: Path, model: ModelServer
) -> None:
    host = Host(
        processes,
        tmp_path,
        postgres_url,
        redis_url,
        auxiliary=asking(model),
        schedule={"reconcile_seconds": 1.0},
    )
    with (
        migrated(postgres_url) as database,
        gateway_on(postgres_url, broker_url=redis_url) as gateway,
    ):
        begin_log(database)
        has_answered(database, model)
        first = host.start_worker("one")
        first.wait_for("READY")
        with model.hold():
            say_turns(gateway, gateway.open_session("s", context_window=128_000), 0, 16)
            model.wait_for_requests(1)
            first.kill()
        assert rows_of(database, "SELECT state FROM jobs WHERE kind = 'micro'") == [("running",)]
        second, beat = host.start_worker("two"), host.start_beat()
        wait_until_quiet(database)
        check_one_at_a_time(read_log(database))
        assert rows_of(database, "SELECT reason FROM jobs WHERE kind = 'micro'") == [
            ("the worker went silent",)
        ]
        assert len(markers(database)) == 1
        end(beat, second)
