"""Crashes in the middle of a pass: nothing half-done, and no answer paid for twice."""

from __future__ import annotations

import json
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import Event, Thread
from typing import Any

import psutil
import pytest
from sqlalchemy import event

from producers import DatabaseUnavailable, Session
from storage import jobs
from storage.engine import Database
from storage.jobs import JobKind
from storage.outcomes import Outcome
from tests.support.model.server import ModelServer
from tests.support.observing.waiting import bound, wait_until
from tests.support.programs.job import command
from tests.support.programs.processes import Child, Processes
from tests.support.servers.servers import PostgresServer
from tests.support.sessions.conversations import turn
from tests.support.sessions.gateways import contents, rows_of, url_of
from tests.support.sessions.play import Play, Turn, playing, shape
from workers.runtime.jobs import Crashed, NotClaimed, Worked, work
from workers.summariser.client import OpenAISummariser

pytestmark = pytest.mark.both_databases

COMPRESSION: dict[str, Any] = {
    "protect_last_n": 8,
    "threshold_tokens": 4000,
    "micro_compact_min_tokens": 600,
}
TURNS = 16
LEASE_MS = 60_000
AFTER_LEASE_MS = LEASE_MS + 1000

OF_A_PASS = {
    *("messages", "summaries", "sessions", "cursors", "attempts", "guards", "answers"),
    "audit",  # who did it
    "search_pending",  # the new summary, noted for the index
}
CHANGED_AT = {
    "claimed": {"jobs"},
    "planned": {"jobs"},
    "replied": {"jobs"},
    "answered": {"jobs", "answers"},
    "before-commit": {"jobs", "answers"},
    "after-commit": {"jobs"} | OF_A_PASS,
}
"""Tables that may differ when a worker was killed at a point of its first pass."""


@dataclass(frozen=True, slots=True)
class Desk:
    """A session whose oldest exchanges are due in the micro job `job`, and the model."""

    url: str
    play: Play
    session: Session
    model: ModelServer
    job: int

    @property
    def database(self) -> Database:
        return self.play.database

    def child(self, processes: Processes, *, at: str, signal_name: str, options: str = "") -> Child:
        """Start a worker for the job that gets a signal at a point. `options` go to its URL."""
        words = command(
            self.url + options,
            self.job,
            self.model.base_url,
            COMPRESSION,
            at=at,
            signal_name=signal_name,
        )
        return processes.python(*words)

    def asked(self) -> Counter[str]:
        """Return how often the model was asked each question."""
        return Counter(json.dumps(request["messages"]) for request in self.model.requests)


@contextmanager
def playing_with(
    url: str,
    model: ModelServer,
    *,
    offset_ms: int = 0,
    failpoint: Callable[[str], None] = lambda _: None,
) -> Iterator[Play]:
    """Yield a play on `url` whose summariser is the real client of `model`."""
    summariser = OpenAISummariser(
        model="test-model", base_url=model.base_url, api_key="unused", poll_seconds=0.01
    )
    try:
        with playing(
            url, summariser=summariser, offset_ms=offset_ms, failpoint=failpoint, **COMPRESSION
        ) as play:
            yield play
    finally:
        summariser.close()


@contextmanager
def desk(url: str, failpoint: Callable[[str], None] = lambda _: None) -> Iterator[Desk]:
    """Sixteen turns were said and the turn job was worked; now the micro job is due."""
    with ModelServer() as model, playing_with(url, model) as before:
        session = before.gateway.open_session("desk", context_window=128_000)
        for number in range(TURNS):
            before.say(session, Turn(turn(number), [None] * 4))
        assert before.work_one() is not None
        ((job, kind),) = rows_of(before.database, "SELECT id, kind FROM jobs WHERE state = 'due'")
        assert kind == JobKind.MICRO
        with playing_with(url, model, failpoint=failpoint) as play:
            yield Desk(url, play, session, model, job)


def finish_later(scene: Desk) -> list[Worked]:
    """Deliver what is due once every lease has ended, and work it off."""
    with playing_with(scene.url, scene.model, offset_ms=AFTER_LEASE_MS) as later:
        with later.database.write() as connection:
            jobs.rescue_expired(connection, later.database)
        return later.work_off()


@dataclass(frozen=True, slots=True)
class Undisturbed:
    """What becomes of the session when nothing goes wrong."""

    view: list[tuple[Any, ...]]
    asked: Counter[str]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    url = f"sqlite:///{tmp_path_factory.mktemp('undisturbed') / 'afterturn.db'}"
    with desk(url) as scene:
        scene.play.work_off()
        view = shape(scene.play.view(scene.session))
        asked = scene.asked()
    assert len(asked) >= 3
    assert set(asked.values()) == {1}
    return Undisturbed(view, asked)


def check_end(scene: Desk, undisturbed: Undisturbed) -> None:
    """Check that the session is as if nothing had gone wrong, and that nothing is left to do."""
    assert shape(scene.play.view(scene.session)) == undisturbed.view
    assert rows_of(scene.database, "SELECT state, count(*) FROM jobs GROUP BY state") == [
        ("done", 2)
    ]
    assert rows_of(scene.database, "SELECT count(*) FROM answers") == [(0,)]
    outcomes = rows_of(
        scene.database, "SELECT outcome, count(*) FROM attempts GROUP BY outcome ORDER BY outcome"
    )
    assert dict(outcomes)["absorbed"] == len(undisturbed.asked)


def changed(before: dict[str, Any], after: dict[str, Any]) -> set[str]:
    return {table for table in before if before[table] != after[table]}


@pytest.mark.parametrize("point", CHANGED_AT)
def test_a_worker_killed_at_any_point_leaves_a_whole_state_and_the_next_one_finishes(
    point: str, database: Database, processes: Processes, undisturbed: Undisturbed
) -> None:
    with desk(url_of(database)) as scene:
        before = contents(scene.database)
        child = scene.child(processes, at=point, signal_name="SIGKILL")
        assert child.wait() == -signal.SIGKILL
        assert changed(before, contents(scene.database)) <= CHANGED_AT[point]
        asked = scene.asked()
        stored = rows_of(scene.database, "SELECT count(*) FROM answers") == [(1,)]
        assert stored == (point in ("answered", "before-commit"))
        # Its lease holds: nobody else works the job, and turns do not wait for it.
        assert isinstance(work(scene.play.context, scene.job), NotClaimed)
        finish_later(scene)
        check_end(scene, undisturbed)
        # Only an answer that came but was not stored yet is asked for once more.
        twice = asked if point == "replied" else Counter[str]()
        assert scene.asked() == undisturbed.asked + twice


@pytest.mark.parametrize("point", ["claimed", "before-commit", "after-commit"])
def test_a_worker_killed_in_the_turn_job_loses_no_work(
    point: str, database: Database, processes: Processes, undisturbed: Undisturbed
) -> None:
    url = url_of(database)
    with ModelServer() as model, playing_with(url, model) as play:
        session = play.gateway.open_session("desk", context_window=128_000)
        for number in range(TURNS):
            play.say(session, Turn(turn(number), [None] * 4))
        ((job,),) = rows_of(database, "SELECT id FROM jobs")
        scene = Desk(url, play, session, model, job)
        child = scene.child(processes, at=point, signal_name="SIGKILL")
        assert child.wait() == -signal.SIGKILL
        assert rows_of(database, "SELECT kind, state FROM jobs ORDER BY id") == (
            [("turn", "done"), ("micro", "due")]
            if point == "after-commit"
            else [("turn", "running")]
        )
        finish_later(scene)
        check_end(scene, undisturbed)
        assert scene.asked() == undisturbed.asked


class Connections:
    """The driver's connections that are in use, to break them as a dying server would."""

    def __init__(self) -> None:
        self._in_use: set[Any] = set()

    def watch(self, database: Database) -> None:
        @event.listens_for(database.engine, "checkout")
        def _out(connection: Any, *_more: Any) -> None:
            self._in_use.add(connection)

        @event.listens_for(database.engine, "checkin")
        def _in(connection: Any, *_more: Any) -> None:
            self._in_use.discard(connection)

    def break_all(self) -> None:
        for connection in list(self._in_use):
            connection.close()


def test_a_commit_that_fails_changes_nothing_and_the_next_delivery_completes_it(
    database: Database, undisturbed: Undisturbed
) -> None:
    connections = Connections()
    failures = [1]

    def failpoint(point: str) -> None:
        if point == "before-commit" and failures:
            failures.pop()
            connections.break_all()

    with desk(url_of(database), failpoint) as scene:
        connections.watch(scene.database)
        before = contents(database)
        with pytest.raises(DatabaseUnavailable):
            work(scene.play.context, scene.job)
        assert not failures
        assert changed(before, contents(database)) == {"jobs", "answers"}
        assert sum(scene.asked().values()) == 1
        finish_later(scene)
        check_end(scene, undisturbed)
        assert scene.asked() == undisturbed.asked


def test_an_answer_that_comes_while_the_database_restarts_is_kept_and_not_paid_for_again(
    own_postgres: PostgresServer, undisturbed: Undisturbed
) -> None:
    starting: list[Thread] = []

    def failpoint(point: str) -> None:
        if point == "replied" and not starting:
            own_postgres.stop()
            starting.append(Thread(target=own_postgres.start))
            starting[0].start()

    with desk(own_postgres.url, failpoint) as scene:
        outcome = work(scene.play.context, scene.job)
        starting[0].join()
        assert isinstance(outcome, Worked)
        assert {one.outcome for one in outcome.passes} == {Outcome.ABSORBED, Outcome.NOTHING_DUE}
        check_end(scene, undisturbed)
        assert scene.asked() == undisturbed.asked


def test_a_job_that_raises_is_tried_three_times_and_then_dead_with_its_trace_but_no_text(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    said = turn(1)[0]["content"]

    def failpoint(point: str) -> None:
        if point == "planned":
            raise RuntimeError(said)

    with desk(url_of(database), failpoint) as scene:
        before = contents(database)
        outcomes = [work(scene.play.context, scene.job) for _ in range(3)]
        assert all(isinstance(outcome, Crashed) for outcome in outcomes)
        assert [outcome.dead for outcome in outcomes if isinstance(outcome, Crashed)] == [
            False,
            False,
            True,
        ]
        assert changed(before, contents(database)) == {"jobs"}
        ((state, reason, trace),) = rows_of(
            database, "SELECT state, reason, trace FROM jobs WHERE kind = 'micro'"
        )
        assert (state, reason) == ("dead", "RuntimeError")
        for text in (trace, caplog.text):
            assert "in failpoint" in text
            assert said not in text
        # The session goes on with its next turn.
        scene.play.say(scene.session, Turn(turn(99), [None] * 4))
        with playing_with(scene.url, scene.model) as healthy:
            healthy.work_off()
        assert rows_of(
            database, "SELECT state, count(*) FROM jobs GROUP BY state ORDER BY state"
        ) == [("dead", 1), ("done", 3)]


@contextmanager
def worked_while_the_model_thinks(
    scene: Desk, stopping: Callable[[], bool] = lambda: False
) -> Iterator[list[Worked]]:
    """Work the job in a thread; the block runs while the model holds its first answer back."""
    done: list[Worked] = []
    context = replace(scene.play.context, stopping=stopping)

    def run() -> None:
        outcome = work(context, scene.job)
        assert isinstance(outcome, Worked)
        done.append(outcome)

    asked = len(scene.model.requests)
    thread = Thread(target=run, daemon=True)
    with scene.model.hold():
        thread.start()
        scene.model.wait_for_requests(asked + 1)
        yield done
    thread.join(180)
    assert not thread.is_alive()


def test_turns_appended_while_the_model_thinks_do_not_make_its_answer_stale(
    database: Database,
) -> None:
    with desk(url_of(database)) as scene:
        with worked_while_the_model_thinks(scene) as done:
            for number in range(50, 53):
                scene.play.say(scene.session, Turn(turn(number), [None] * 4))
            scene.play.gateway.append(scene.session, turn(60)[:2])
        assert done[0].passes[0].outcome is Outcome.ABSORBED
        assert not any(one.outcome is Outcome.STALE for one in done[0].passes)
        assert set(scene.asked().values()) == {1}
        scene.play.work_off()
        stored = [row.message for row in scene.play.everything(scene.session) if row.message]
        said = [m for n in (*range(TURNS), 50, 51, 52) for m in turn(n)] + turn(60)[:2]
        assert stored == said


def test_a_rewind_while_the_model_thinks_makes_the_plan_stale_and_its_answer_serves_again(
    database: Database,
) -> None:
    with desk(url_of(database)) as scene:
        with worked_while_the_model_thinks(scene) as done:
            scene.play.gateway.rewind(scene.session)
        assert done[0].passes[0].outcome is Outcome.STALE
        assert done[0].passes[1].outcome is Outcome.ABSORBED
        # The new plan takes the same rows, so the answer that came is the answer to it.
        assert set(scene.asked().values()) == {1}
        assert rows_of(database, "SELECT count(*) FROM attempts WHERE outcome = 'stale'") == [(1,)]
        assert rows_of(database, "SELECT count(*) FROM messages WHERE position >= 60") == [(4,)]
        assert max(row.position for row in scene.play.view(scene.session)) == 59


def test_a_rewind_past_the_planned_rows_leaves_nothing_of_them(database: Database) -> None:
    with desk(url_of(database)) as scene:
        with worked_while_the_model_thinks(scene) as done:
            scene.play.gateway.rewind(scene.session, turns=TURNS - 1)
        assert [one.outcome for one in done[0].passes] == [Outcome.STALE, Outcome.NOTHING_DUE]
        assert [r.message for r in scene.play.view(scene.session)] == turn(0)
        assert rows_of(database, "SELECT count(*) FROM summaries") == [(0,)]
        assert rows_of(database, "SELECT state FROM jobs WHERE kind = 'micro'") == [("done",)]


def test_an_undo_while_the_model_thinks_makes_the_plan_stale(database: Database) -> None:
    with desk(url_of(database)) as scene:
        scene.play.work_off()
        former = shape(scene.play.view(scene.session))
        for number in range(50, 54):
            scene.play.say(scene.session, Turn(turn(number), [None] * 4))
        scene.play.work_one()
        ((job,),) = rows_of(database, "SELECT id FROM jobs WHERE state = 'due'")
        again = Desk(scene.url, scene.play, scene.session, scene.model, job)
        with worked_while_the_model_thinks(again) as done:
            undone = scene.play.gateway.undo(scene.session)
            view = shape(scene.play.view(scene.session))
        assert undone is not None
        # Automatic passes wait for the next turn after an undo.
        assert [one.outcome for one in done[0].passes] == [Outcome.STALE, Outcome.NOTHING_DUE]
        assert shape(scene.play.view(scene.session)) == view
        assert view != former
        scene.play.say(scene.session, Turn(turn(54), [None] * 4))
        worked = scene.play.work_off()
        assert any(one.outcome is Outcome.ABSORBED for w in worked for one in w.passes)


def test_a_change_of_the_model_while_the_summariser_thinks_makes_the_plan_stale(
    database: Database, undisturbed: Undisturbed
) -> None:
    with desk(url_of(database)) as scene:
        with worked_while_the_model_thinks(scene) as done:
            scene.play.gateway.set_model(scene.session, "other", context_window=128_000)
        assert done[0].passes[0].outcome is Outcome.STALE
        scene.play.work_off()
        check_end(scene, undisturbed)
        assert scene.asked() == undisturbed.asked


@pytest.mark.parametrize("point", ["replied", "answered"])
def test_a_worker_that_slept_past_its_lease_commits_nothing(
    point: str, database: Database, processes: Processes, undisturbed: Undisturbed
) -> None:
    with desk(url_of(database)) as scene:
        sleeper = scene.child(processes, at=point, signal_name="SIGSTOP")
        wait_until_asleep(sleeper)
        finish_later(scene)
        check_end(scene, undisturbed)
        before = contents(database)
        sleeper.send(signal.SIGCONT)
        assert sleeper.wait() == 0
        assert "outcome Worked handed_back end" in sleeper.output
        # Answers carry no fence: they are keyed by what was asked.
        assert changed(before, contents(database)) <= {"answers"}


def test_a_worker_that_sleeps_within_its_commit_does_not_hold_the_session_for_long(
    postgres_url: str, processes: Processes, undisturbed: Undisturbed
) -> None:
    with desk(postgres_url) as scene:
        # What the engine sets by itself is half a minute.
        sleeper = scene.child(
            processes,
            at="before-commit",
            signal_name="SIGSTOP",
            options="?options=-c%20idle_in_transaction_session_timeout%3D1000",
        )
        wait_until_asleep(sleeper)
        # A turn that is finished meanwhile waits for no worker that is dead to the world.
        started = time.monotonic()
        scene.play.say(scene.session, Turn(turn(99), [None] * 4))
        assert time.monotonic() - started < bound(10)
        scene.play.gateway.rewind(scene.session)
        finish_later(scene)
        before = contents(scene.database)
        sleeper.send(signal.SIGCONT)
        assert sleeper.wait() == 1
        assert "DatabaseUnavailable" in sleeper.output
        assert changed(before, contents(scene.database)) == set()
        assert shape(scene.play.view(scene.session)) == undisturbed.view
        assert scene.asked() == undisturbed.asked


def wait_until_asleep(child: Child) -> None:
    stopped = psutil.Process(child.pid)
    wait_until(lambda: stopped.status() == psutil.STATUS_STOPPED, "the worker sleeps")


def test_a_worker_that_stops_keeps_what_the_model_is_saying_and_gives_the_rest_back(
    database: Database, undisturbed: Undisturbed
) -> None:
    with desk(url_of(database)) as scene:
        stop = Event()
        with worked_while_the_model_thinks(scene, stop.is_set) as done:
            stop.set()
        assert [one.outcome for one in done[0].passes] == [Outcome.ABSORBED, Outcome.HANDED_BACK]
        assert rows_of(database, "SELECT state, attempt FROM jobs WHERE kind = 'micro'") == [
            ("due", 0)
        ]
        scene.play.work_off()
        check_end(scene, undisturbed)
        assert scene.asked() == undisturbed.asked
