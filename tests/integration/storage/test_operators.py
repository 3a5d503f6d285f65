"""What is read for people: the newest signals, and how long models take."""

from __future__ import annotations

from typing import Any

import pytest

from storage import attempts, signals
from storage.attempts import AttemptRecord
from storage.conversations import sessions
from storage.engine import Database
from storage.signals import SignalKind
from tests.support.sessions.stored_session import StoredSession

pytestmark = pytest.mark.both_databases


def emit(session: StoredSession, *, quiet: bool = False) -> int:
    with session.database.write() as connection:
        sessions.lock(connection, session.key)
        kind = SignalKind.FINISHED
        signal = signals.emit(connection, session.database, session.key, kind, {}, quiet=quiet)
    return signal.id


def took(session: StoredSession, model_ms: int, **facts: Any) -> None:
    """Record a try that took so long."""
    values: dict[str, Any] = {
        "job_id": None,
        "kind": "batch",
        "trigger": "manual",
        "outcome": "compacted",
        "messages_before": 0,
        "messages_after": 0,
        "tokens_before": 0,
        "tokens_after": 0,
        "cursor": 0,
        "passes": 0,
        "tokens_saved": 0,
        "threshold_tokens": 0,
        "model": "small",
        "requests": 1,
    }
    with session.database.write() as connection:
        record = AttemptRecord(**{**values, **facts, "model_ms": model_ms})
        attempts.record(connection, session.database, session.key, record)


def times(database: Database, model: str = "small", limit: int = 50) -> list[int]:
    with database.read() as connection:
        return attempts.answer_times(connection, model, limit=limit)


def test_the_last_signals_come_oldest_first(database: Database) -> None:
    one, other = StoredSession.create(database, "one"), StoredSession.create(database, "other")
    sent = [emit(one), emit(other), emit(one, quiet=True), emit(one), emit(other)]

    def last(limit: int, **more: Any) -> list[int]:
        with database.read() as connection:
            found = signals.read(connection, owner="o", limit=limit, last=True, **more)
        return [signal.id for signal in found]

    assert last(2) == sent[3:]
    assert last(2, key=one.key) == [sent[0], sent[3]]
    assert last(2, key=one.key, quiet=True) == sent[2:4]
    assert last(9, after=sent[2]) == sent[3:]
    assert last(0) == []


def test_times_are_per_request_of_the_model_and_newest_first(database: Database) -> None:
    session = StoredSession.create(database)
    took(session, 1000)
    took(session, 9000, requests=3)
    took(session, 70_000, model="other")
    took(session, 5000)
    assert times(database) == [5000, 3000, 1000]
    assert times(database, limit=2) == [5000, 3000]
    assert times(database, "other") == [70_000]


def test_tries_without_an_answer_or_a_request_have_no_time(database: Database) -> None:
    session = StoredSession.create(database)
    took(session, 0, outcome="failed", error_class="rate_limited")
    took(session, 4000, requests=0)
    assert times(database) == []
