"""The notification of a finished turn: short, and never at the cost of the gateway."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis

from producers import Gateway, Notifier, Session, notify
from storage.engine import Database, open_database
from storage.jobs import DueJob, JobKind
from tasks import publishing
from tasks.application import make_app
from tasks.names import FINALIZE, QUEUES
from tests.support.observing.waiting import bound, wait_until
from tests.support.servers.servers import RedisServer
from tests.support.sessions.conversations import turn
from tests.support.sessions.gateways import gateway_on, migrated, rows_of
from workers.runtime.context import WorkerContext
from workers.scans.reconcile import NOTIFY_AGAIN_MS, reconcile
from workers.settings import Settings, SettingsSource
from workers.summariser.extractive.local import LocalSummariser

FAST_SECONDS = 0.25
CLOSED_SECONDS = 5.0


@pytest.fixture
def database(sqlite_url: str) -> Iterator[Database]:
    """Yield a file of the test's own; what is published is the same on both databases."""
    with migrated(sqlite_url) as opened:
        yield opened


def queued(url: str, queue: str) -> list[dict[str, Any]]:
    """Return the messages that wait in a queue, oldest first."""
    with redis.Redis.from_url(url) as client:
        return [json.loads(text) for text in client.lrange(queue, 0, -1)][::-1]


def notified(url: str) -> set[tuple[str, int]]:
    """Queue and job of every message that waits."""
    return {(queue, body_of(m)[1]["job_id"]) for queue in QUEUES for m in queued(url, queue)}


def body_of(message: dict[str, Any]) -> Any:
    return json.loads(base64.b64decode(message["body"]))


def due_jobs(database: Database) -> set[tuple[str, int]]:
    return {(q, i) for q, i in rows_of(database, "SELECT queue, id FROM jobs WHERE state = 'due'")}


def finish_turns(gateway: Gateway, sessions: list[Session], turns: int) -> list[float]:
    """Finish `turns` turns over the sessions; return how long each took, shortest first.

    A share of 99 % is the slowest of all of 100 turns, and a disk may be busy for a moment: tests
    finish more.
    """
    took = []
    for number in range(turns):
        started = time.perf_counter()
        gateway.finalize_turn(sessions[number % len(sessions)], turn(number))
        took.append(time.perf_counter() - started)
    return sorted(took)


def notify_later(url: str, broker_url: str) -> int:
    """Notify what is due as the reconciler does once a notification counts as lost."""
    settings = Settings(database_url=url, broker_url=broker_url)
    later = open_database(url, offset_ms=NOTIFY_AGAIN_MS + 1000)
    app = make_app(broker_url, lambda: context)
    context = WorkerContext(
        database=later, settings=SettingsSource.fixed(settings), summariser=LocalSummariser()
    )
    try:
        return publishing.notify(app, reconcile(context))
    finally:
        app.close()
        later.close()


@contextmanager
def closing_in_time(gateway: Gateway) -> Iterator[None]:
    """Close the gateway at the end and make sure that it does not take long."""
    try:
        yield
    finally:
        started = time.monotonic()
        gateway.close()
        took = time.monotonic() - started
    assert took < bound(CLOSED_SECONDS)


def test_a_notification_names_the_job_in_its_queue_and_holds_no_text(
    database: Database, sqlite_url: str, redis_url: str
) -> None:
    with gateway_on(sqlite_url, broker_url=redis_url) as gateway:
        session = gateway.open_session("the id of a session", title="a title", system_prompt="be")
        gateway.append(session, turn(1)[:2])
        gateway.finalize_turn(session, turn(1)[2:], event_id="an event", usage={"prompt_tokens": 7})
        wait_until(lambda: bool(queued(redis_url, "turns")), "the notification arrives")
        (message,) = queued(redis_url, "turns")
    ((job,),) = rows_of(database, "SELECT id FROM jobs")
    arguments, facts, _ = body_of(message)
    assert message["content-type"] == "application/json"
    assert message["headers"]["task"] == FINALIZE
    assert (arguments, facts) == (
        [],
        {"job_id": job, "session": session.id, "trigger": "turn", "queue": "turns"},
    )
    written = json.dumps(message) + json.dumps(body_of(message))
    for text in ("Request 1", "booking", "B0001", "Done with", "a title", "an event"):
        assert text not in written
    assert notified(redis_url) == {("turns", job)}


def test_a_repeated_event_does_not_notify_again(
    database: Database, sqlite_url: str, redis_url: str
) -> None:
    with gateway_on(sqlite_url, broker_url=redis_url) as gateway:
        session = gateway.open_session("s")
        for _ in range(3):
            gateway.finalize_turn(session, turn(1), event_id="e")
        wait_until(lambda: bool(queued(redis_url, "turns")), "the notification arrives")
    assert len(queued(redis_url, "turns")) == 1


def test_without_a_broker_nothing_is_published_and_the_row_says_so(
    database: Database, sqlite_url: str
) -> None:
    with gateway_on(sqlite_url) as gateway:
        gateway.finalize_turn(gateway.open_session("s"), turn(1))
    assert rows_of(database, "SELECT state, notified_at FROM jobs") == [("due", None)]


def test_a_broker_that_refuses_costs_the_gateway_nothing(
    database: Database, sqlite_url: str, own_redis: RedisServer
) -> None:
    own_redis.stop()
    gateway = Gateway(Settings(database_url=sqlite_url, broker_url=own_redis.url))
    with closing_in_time(gateway):
        sessions = [gateway.open_session(f"s{number}") for number in range(5)]
        took = finish_turns(gateway, sessions, 200)
    assert took[int(0.99 * len(took))] < FAST_SECONDS
    own_redis.start()
    assert notify_later(sqlite_url, own_redis.url) == 5
    assert notified(own_redis.url) == due_jobs(database)


def test_a_broker_that_hangs_costs_the_gateway_nothing(
    database: Database, sqlite_url: str, own_redis: RedisServer
) -> None:
    gateway = Gateway(Settings(database_url=sqlite_url, broker_url=own_redis.url))
    with closing_in_time(gateway):
        sessions = [gateway.open_session(f"s{number}") for number in range(5)]
        finish_turns(gateway, sessions[:1], 1)
        wait_until(lambda: bool(queued(own_redis.url, "turns")), "the notification arrives")
        # Hangs with a connection that was good a moment ago.
        own_redis.pause()
        took = finish_turns(gateway, sessions, 300)
    assert took[int(0.99 * len(took))] < FAST_SECONDS
    own_redis.resume()
    assert notify_later(sqlite_url, own_redis.url) == 5
    assert notified(own_redis.url) == due_jobs(database)


def test_a_broker_that_hangs_from_the_start_costs_the_gateway_nothing(
    database: Database, sqlite_url: str, own_redis: RedisServer
) -> None:
    own_redis.pause()
    gateway = Gateway(Settings(database_url=sqlite_url, broker_url=own_redis.url))
    with closing_in_time(gateway):
        took = finish_turns(gateway, [gateway.open_session("s")], 200)
    assert took[int(0.99 * len(took))] < FAST_SECONDS


def test_a_broker_that_is_killed_between_two_turns_is_notified_again_when_it_is_back(
    database: Database, sqlite_url: str, own_redis: RedisServer
) -> None:
    gateway = Gateway(Settings(database_url=sqlite_url, broker_url=own_redis.url))
    with closing_in_time(gateway):
        sessions = [gateway.open_session(f"s{number}") for number in range(5)]
        finish_turns(gateway, sessions, 5)
        wait_until(lambda: len(notified(own_redis.url)) == 5, "every notification arrives")
        own_redis.kill()
        took = finish_turns(gateway, sessions, 200)
        # One that is being published while the broker comes back may well arrive.
        notifier = gateway._operations._notifier
        assert notifier is not None
        assert notifier.flush(180)
        own_redis.start()
        assert notified(own_redis.url) == set()
        finish_turns(gateway, sessions[:1], 1)
        ((job,),) = rows_of(
            database, "SELECT id FROM jobs WHERE session_key = :key", key=sessions[0].key
        )
        wait_until(lambda: ("turns", job) in notified(own_redis.url), "the new turn is notified")
        assert took[int(0.98 * len(took))] < FAST_SECONDS
    notify_later(sqlite_url, own_redis.url)
    assert notified(own_redis.url) == due_jobs(database)


def test_thousands_of_notifications_for_the_same_jobs_become_a_few_messages(
    own_redis: RedisServer,
) -> None:
    notifier = Notifier(own_redis.url)
    due = [DueJob(number, JobKind.TURN, "turns", "turn", "one") for number in range(1, 4)]
    try:
        notifier.notify(due[0])
        assert notifier.flush(180)
        own_redis.pause()
        started = time.perf_counter()
        for number in range(30_000):
            notifier.notify(due[number % 3])
        assert time.perf_counter() - started < bound(30_000 * 0.001)
        own_redis.resume()
        assert notifier.flush(180)
        # Again, since a notification that met the hanging broker is left to the reconciler.
        for job in due:
            notifier.notify(job)
        assert notifier.flush(180)
    finally:
        notifier.close()
    messages = [body_of(message)[1]["job_id"] for message in queued(own_redis.url, "turns")]
    assert set(messages) == {1, 2, 3}
    assert len(messages) < 100


def test_notifications_that_wait_for_a_broker_are_bounded(
    own_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notify, "MAX_WAITING", 50)
    notifier = Notifier(own_redis.url)
    try:
        notifier.notify(DueJob(0, JobKind.TURN, "turns", "turn", "one"))
        assert notifier.flush(180)
        own_redis.pause()
        for number in range(1, 1001):
            notifier.notify(DueJob(number, JobKind.TURN, "turns", "turn", "one"))
        own_redis.resume()
        assert notifier.flush(180)
    finally:
        notifier.close()
    # Those that were being published when the broker froze, and those that waited meanwhile.
    assert len(queued(own_redis.url, "turns")) <= 1 + 50 + 50


def test_a_notifier_that_is_closed_publishes_nothing_more(own_redis: RedisServer) -> None:
    own_redis.pause()
    notifier = Notifier(own_redis.url)
    notifier.notify(DueJob(1, JobKind.TURN, "turns", "turn", "one"))
    started = time.monotonic()
    notifier.close()
    notifier.close()
    assert time.monotonic() - started < bound(CLOSED_SECONDS)
    notifier.notify(DueJob(1, JobKind.TURN, "turns", "turn", "one"))
    assert notifier.flush(0.1)
