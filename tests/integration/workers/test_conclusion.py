"""A job's task in Celery: SUCCESS, RETRY for a try that is repeated, FAILURE for a dead job."""

from __future__ import annotations

import json
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import redis
from celery import Celery

from producers import Session
from storage.jobs import MAX_CRASHES
from tasks.application import make_app
from tasks.names import ABSORB, FINALIZE, RECONCILE
from tests.support.model.behaviours import Status
from tests.support.model.server import ModelServer
from tests.support.programs.processes import Processes
from tests.support.sessions.conversations import turn
from tests.support.sessions.play import Play, Turn, playing
from workers.summariser.client import OpenAISummariser

pytestmark = pytest.mark.both_databases

COMPRESSION: dict[str, Any] = {
    "protect_last_n": 8,
    "threshold_tokens": 4000,
    "micro_compact_min_tokens": 600,
}

SECRET = "a text of the conversation"


class Points:
    """Raises at the point that a test names."""

    def __init__(self) -> None:
        self.raises_at = ""

    def __call__(self, point: str) -> None:
        if point == self.raises_at:
            raise RuntimeError(SECRET)


@contextmanager
def scene(url: str, redis_url: str) -> Iterator[tuple[Play, Celery, ModelServer, Points]]:
    """Sixteen turns whose turn job is due, and the application whose tasks work them."""
    points = Points()
    with ModelServer() as model:
        summariser = OpenAISummariser(
            model="test-model", base_url=model.base_url, api_key="", poll_seconds=0.01
        )
        with playing(url, summariser=summariser, failpoint=points, **COMPRESSION) as play:
            session = play.gateway.open_session("s", context_window=128_000)
            for number in range(16):
                play.say(session, Turn(turn(number), [None] * 4))
            app = make_app(redis_url, lambda: play.context)
            try:
                yield play, app, model, points
            finally:
                app.close()
        summariser.close()


def job(play: Play) -> int:
    ((due,),) = play.rows("SELECT id FROM jobs WHERE state = 'due'")
    return int(due)


def run(app: Celery, name: str, **facts: Any) -> tuple[str, str]:
    """Run a task as a worker would, without one; return its state and what it says."""
    done = app.tasks[name].apply(kwargs=facts)
    return done.state, str(done.result)


def notifications(url: str, queue: str) -> list[str]:
    with redis.Redis.from_url(url) as client:
        return [json.loads(text)["headers"]["task"] for text in client.lrange(queue, 0, -1)]


def test_a_finished_job_succeeds_says_what_was_done_and_notifies_of_what_follows(
    sqlite_url: str, redis_url: str
) -> None:
    with scene(sqlite_url, redis_url) as (play, app, _, _):
        first = job(play)
        assert run(app, FINALIZE, job_id=first, session=1, trigger="turn") == (
            "SUCCESS",
            "due: micro",
        )
        assert notifications(redis_url, "micro") == [ABSORB]
        state, said = run(app, ABSORB, job_id=job(play), session=1, trigger="micro", new_fact=1)
        assert (state, said) == ("SUCCESS", "absorbed 6, nothing_due 1")
        # A late worker has nothing to do.
        assert run(app, FINALIZE, job_id=first) == ("SUCCESS", "already taken")
        assert run(app, FINALIZE, job_id=10**6) == ("SUCCESS", "already taken")
        assert notifications(redis_url, "micro") == [ABSORB]


def test_a_try_that_will_be_repeated_is_a_retry_that_sends_no_message(
    sqlite_url: str, redis_url: str
) -> None:
    with scene(sqlite_url, redis_url) as (play, app, model, _):
        run(app, FINALIZE, job_id=job(play))
        waiting = notifications(redis_url, "micro")
        model.always(Status(500))
        state, said = run(app, ABSORB, job_id=job(play))
        assert state == "RETRY"
        assert "server_error" in said
        # The row waits; a message with a countdown would be lost or repeated. What is due at
        # once, as here without a wait between tries, is notified.
        assert notifications(redis_url, "micro") == [*waiting, ABSORB]


def test_a_crash_is_a_retry_until_it_is_a_failure_and_neither_quotes_anything(
    sqlite_url: str, redis_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with scene(sqlite_url, redis_url) as (play, app, _, points):
        run(app, FINALIZE, job_id=job(play))
        micro = job(play)
        points.raises_at = "planned"
        results = [run(app, ABSORB, job_id=micro) for _ in range(MAX_CRASHES)]
        assert [state for state, _ in results] == ["RETRY", "RETRY", "FAILURE"]
        assert "RuntimeError" in results[-1][1]
        assert SECRET not in str(results) + caplog.text
        assert run(app, ABSORB, job_id=micro) == ("SUCCESS", "already taken")


def test_the_reconciler_notifies_of_what_has_no_notification(
    sqlite_url: str, redis_url: str
) -> None:
    with scene(sqlite_url, redis_url) as (play, app, _, _):
        assert notifications(redis_url, "turns") == []
        assert run(app, RECONCILE) == ("SUCCESS", "1")
        assert notifications(redis_url, "turns") == [FINALIZE]
        # Once in half a minute, however many ask.
        assert run(app, RECONCILE) == ("SUCCESS", "0")
        assert job(play) == 1


FORK = """
import os
from tasks.application import ProcessContext
from workers.settings import SettingsSource

context = ProcessContext(SettingsSource.following())
mine = context()
child = os.fork()
theirs = context()
with theirs.database.write() as connection:
    connection.exec_driver_sql("UPDATE sessions SET turns = turns + 1")
assert (theirs.database is mine.database) == (child != 0)
assert (theirs.lease_owner == mine.lease_owner) == (child != 0)
if child:
    assert os.waitpid(child, 0)[1] == 0
    print("both worked", end="")
context.close()
os._exit(0)
"""


def test_a_forked_worker_opens_the_database_anew(database_url: str, processes: Processes) -> None:
    with playing(database_url) as play:
        session: Session = play.gateway.open_session("s")
        child = processes.python("-c", FORK, env={"DATABASE_URL": database_url})
        assert child.wait() == 0
        assert play.rows("SELECT turns FROM sessions WHERE key = :key", key=session.key) == [(2,)]


def test_from_the_task_to_the_commit_it_is_six_frames_at_most(
    sqlite_url: str, redis_url: str
) -> None:
    depths: list[int] = []
    with scene(sqlite_url, redis_url) as (play, _, _, _):

        def measure(point: str) -> None:
            names = [frame.name for frame in traceback.extract_stack()]
            if point == "before-commit" and "commit" in names:
                # The task itself is one frame above.
                depths.append(1 + names[names.index("work_and_conclude") :].index("commit"))

        measured = make_app(redis_url, lambda: replace(play.context, failpoint=measure))
        try:
            run(measured, FINALIZE, job_id=job(play))
            run(measured, ABSORB, job_id=job(play))
        finally:
            measured.close()
    assert depths
    assert max(depths) <= 6
