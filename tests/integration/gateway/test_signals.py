"""Signals reach a gateway, each once and in order, pushed or not."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
import redis

from producers import Gateway, RequestError, Session, Signal, SignalKind
from storage import signals
from storage.conversations import sessions
from storage.engine import Database
from storage.signals import from_json
from tasks.names import signal_channel
from tasks.publishing import publish_signals
from tests.support.observing.waiting import bound, wait_until
from tests.support.servers.servers import RedisServer
from tests.support.sessions.gateways import gateway_on, url_of
from tests.support.sessions.stored_session import on_postgresql

SLOW_POLL = 60.0
"""Seconds between two looks that no test waits for: what comes sooner was pushed."""

FAST_POLL = 0.02
NOWHERE = "redis://127.0.0.1:1/0"


@pytest.fixture
def owner() -> str:
    """Return an owner of its own for each test: the channels of a Redis are the same in all of its
    databases, and tests run in several processes."""
    return f"owner {uuid.uuid4().hex}"


@pytest.fixture
def session(gateway: Gateway) -> Session:
    return gateway.open_session("s")


def emit(
    database: Database,
    session: Session,
    kind: SignalKind = SignalKind.FINISHED,
    *,
    quiet: bool = False,
    **facts: Any,
) -> Signal:
    with database.write() as connection:
        sessions.lock(connection, session.key)
        return signals.emit(connection, database, session.key, kind, facts, quiet=quiet)


@contextmanager
def listening(gateway: Gateway, **options: Any) -> Iterator[list[Signal]]:
    """Yield what a thread hears that listens with `options`."""
    heard: list[Signal] = []
    ended = threading.Event()
    errors: list[Exception] = []
    coming = gateway.listen(stop=ended.is_set, **options)

    def run() -> None:
        try:
            for signal in coming:
                heard.append(signal)
        except Exception as error:  # noqa: BLE001 - the test raises it
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield heard
    finally:
        ended.set()
        thread.join(180)
    assert not thread.is_alive()
    for error in errors:
        raise error


class TestReading:
    def test_gives_what_came_after_an_id_of_one_session_or_all(
        self, gateway: Gateway, database: Database, session: Session
    ) -> None:
        other = gateway.open_session("other")
        first = emit(database, session, messages_before=9, messages_after=4)
        second = emit(database, other, SignalKind.STUCK, sentence="too large")
        third = emit(database, session, SignalKind.RESET)
        assert gateway.signals() == [first, second, third]
        assert gateway.signals("s") == gateway.signals(session) == [first, third]
        assert gateway.signals(after=first.id) == [second, third]
        assert gateway.signals(after=first.id, limit=1) == [second]
        assert gateway.signals(after=third.id) == []
        (seen,) = gateway.signals("other")
        assert (seen.session_id, seen.kind, seen.facts) == (
            "other",
            SignalKind.STUCK,
            {"sentence": "too large"},
        )

    def test_leaves_quiet_ones_out_unless_asked(
        self, gateway: Gateway, database: Database, session: Session
    ) -> None:
        quiet = emit(database, session, SignalKind.STARTED, quiet=True)
        loud = emit(database, session, SignalKind.EXHAUSTED)
        assert gateway.signals() == [loud]
        assert gateway.signals(quiet=True) == [quiet, loud]

    def test_is_of_the_owners_sessions_alone(
        self, gateway: Gateway, database: Database, session: Session
    ) -> None:
        mine = emit(database, session)
        with gateway_on(url_of(database), owner="bob") as bob:
            theirs = emit(database, bob.open_session("s"))
            assert bob.signals() == bob.signals("s") == [theirs]
            assert gateway.signals() == gateway.signals("s") == [mine]
            with listening(bob, after=0, poll_seconds=FAST_POLL) as heard:
                wait_until(lambda: bool(heard), "bob's signal")
                emit(database, session)
                last = emit(database, bob.open_session("s"))
                wait_until(lambda: len(heard) > 1, "bob's second signal")
            assert heard == [theirs, last]

    @pytest.mark.parametrize(
        "arguments", [{"after": -1}, {"after": "1"}, {"limit": 0}, {"limit": 10**6}]
    )
    def test_refuses_what_cannot_be_meant(self, gateway: Gateway, arguments: Any) -> None:
        with pytest.raises(RequestError) as refused:
            gateway.signals(**arguments)
        assert refused.value.field in arguments


class TestListening:
    def test_begins_now_unless_asked_otherwise(
        self, gateway: Gateway, database: Database, session: Session
    ) -> None:
        old = emit(database, session)
        with (
            listening(gateway, poll_seconds=FAST_POLL) as from_now,
            listening(gateway, after=0, poll_seconds=FAST_POLL) as from_the_first,
        ):
            new = emit(database, session)
            wait_until(lambda: new in from_now and new in from_the_first, "the new signal")
        assert from_now == [new]
        assert from_the_first == [old, new]

    def test_hears_each_once_and_in_order_whatever_their_number(
        self, gateway: Gateway, database: Database, session: Session
    ) -> None:
        ids = [emit(database, session).id for _ in range(230)]
        with listening(gateway, after=0, poll_seconds=FAST_POLL) as heard:
            ids += [emit(database, session).id for _ in range(20)]
            wait_until(lambda: len(heard) == len(ids), "all signals")
        assert [signal.id for signal in heard] == ids

    def test_ends_soon_after_it_is_asked_to(self, gateway: Gateway, session: Session) -> None:
        started = time.monotonic()
        with listening(gateway, poll_seconds=SLOW_POLL):
            pass
        assert time.monotonic() - started < bound(5)

    def test_holds_no_transaction_while_the_caller_has_a_signal(
        self, gateway: Gateway, database: Database, session: Session
    ) -> None:
        emit(database, session)
        coming = gateway.listen(after=0, poll_seconds=FAST_POLL)
        next(coming)
        # A reader that is still inside would see the past.
        later = emit(database, session)
        assert next(coming) == later

    @pytest.mark.parametrize("poll_seconds", [-1, "1", float("nan")])
    def test_refuses_a_pause_that_cannot_be_meant(
        self, gateway: Gateway, poll_seconds: Any
    ) -> None:
        with pytest.raises(RequestError, match="poll_seconds: "):
            gateway.listen(poll_seconds=poll_seconds)

    @on_postgresql
    def test_misses_none_that_is_committed_after_a_later_one(
        self, gateway: Gateway, database: Database, session: Session
    ) -> None:
        other = gateway.open_session("other")
        emitted, commit = threading.Event(), threading.Event()

        def slowly() -> None:
            with database.write() as connection:
                sessions.lock(connection, session.key)
                signals.emit(connection, database, session.key, SignalKind.RESET, {}, quiet=False)
                emitted.set()
                commit.wait(180)

        slow = threading.Thread(target=slowly, daemon=True)
        quick = threading.Thread(target=lambda: emit(database, other), daemon=True)
        with listening(gateway, after=0, poll_seconds=FAST_POLL) as heard:
            slow.start()
            assert emitted.wait(180)
            quick.start()
            quick.join(0.2)
            assert quick.is_alive()
            assert heard == []
            commit.set()
            wait_until(lambda: len(heard) == 2, "both signals")
        assert [signal.session_id for signal in heard] == ["s", "other"]


class TestPushing:
    def test_is_heard_at_once(self, database: Database, redis_url: str, owner: str) -> None:
        with gateway_on(url_of(database), owner=owner, broker_url=redis_url) as gateway:
            session = gateway.open_session("s")
            with listening(gateway, poll_seconds=SLOW_POLL) as heard:
                wait_until(lambda: subscribers(redis_url, owner) == 1, "the subscription")
                for number in range(3):
                    signal = emit(database, session, number=number)
                    assert publish_signals(redis_url, [signal]) == 1
                    wait_until(partial(heard.__contains__, signal), "the push")
                # What nobody pushed comes with the next push, and one that is repeated is nothing.
                silent = emit(database, session)
                publish_signals(redis_url, [signal])
                last = emit(database, session)
                publish_signals(redis_url, [last, last])
                wait_until(lambda: last in heard, "the last signal")
            assert [s.facts.get("number") for s in heard] == [0, 1, 2, None, None]
            assert heard[3:] == [silent, last]

    def test_goes_to_the_owners_channel_as_json_and_quiet_ones_to_nobody(
        self, database: Database, redis_url: str, owner: str
    ) -> None:
        with gateway_on(url_of(database), owner=owner) as gateway:
            session = gateway.open_session("s")
        quiet = emit(database, session, SignalKind.STARTED, quiet=True)
        loud = emit(database, session, SignalKind.COOLDOWN, until=17)
        with redis.Redis.from_url(redis_url) as client, client.pubsub() as channels:
            channels.subscribe(signal_channel(owner))
            wait_until(lambda: subscribers(redis_url, owner) == 1, "the subscription")
            assert publish_signals(redis_url, [quiet, loud]) == 1
            pushed: list[Any] = []
            wait_until(lambda: received(channels, pushed), "the push")
        assert from_json(pushed[0]) == loud

    def test_that_is_no_signal_only_means_to_look(
        self, database: Database, redis_url: str, owner: str
    ) -> None:
        with gateway_on(url_of(database), owner=owner, broker_url=redis_url) as gateway:
            session = gateway.open_session("s")
            with listening(gateway, poll_seconds=SLOW_POLL) as heard:
                wait_until(lambda: subscribers(redis_url, owner) == 1, "the subscription")
                signal = emit(database, session)
                with redis.Redis.from_url(redis_url) as client:
                    client.publish(signal_channel(owner), b"\xff\x00 nonsense")
                wait_until(lambda: heard == [signal], "the signal")

    def test_works_for_owners_of_any_name(
        self, database: Database, redis_url: str, owner: str
    ) -> None:
        name = f"ün\ud800 {owner}"
        with gateway_on(url_of(database), owner=name, broker_url=redis_url) as gateway:
            session = gateway.open_session("s")
            with listening(gateway, poll_seconds=SLOW_POLL) as heard:
                wait_until(lambda: subscribers(redis_url, name) == 1, "the subscription")
                signal = emit(database, session)
                assert publish_signals(redis_url, [signal]) == 1
                wait_until(lambda: heard == [signal], "the signal")

    @pytest.mark.parametrize(
        "broker_url", [None, "amqp://localhost", "memory://", "sqla+sqlite:///x", NOWHERE, "redis:"]
    )
    def test_without_a_redis_does_no_harm(
        self, gateway: Gateway, database: Database, session: Session, broker_url: str | None
    ) -> None:
        signal = emit(database, session)
        started = time.monotonic()
        assert publish_signals(broker_url, [signal]) == 0
        assert time.monotonic() - started < bound(2)

    def test_that_stops_only_means_that_signals_are_polled(
        self, database: Database, own_redis: RedisServer
    ) -> None:
        with gateway_on(url_of(database), broker_url=own_redis.url) as gateway:
            session = gateway.open_session("s")
            with listening(gateway, poll_seconds=0.2) as heard:
                wait_until(lambda: subscribers(own_redis.url, "local") == 1, "the subscription")
                own_redis.kill()
                signals_ = [emit(database, session) for _ in range(3)]
                assert publish_signals(own_redis.url, signals_) == 0
                wait_until(lambda: heard == signals_, "the signals")


def subscribers(url: str, owner: str) -> int:
    channel = signal_channel(owner).encode("utf-8", "surrogatepass")
    with redis.Redis.from_url(url) as client:
        return int(dict(client.pubsub_numsub(channel))[channel])


def received(channels: Any, into: list[Any]) -> bool:
    message = channels.get_message(ignore_subscribe_messages=True, timeout=0.1)
    if message is not None:
        into.append(message["data"])
    return bool(into)
