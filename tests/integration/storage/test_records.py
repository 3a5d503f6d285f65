"""What is noted beside the conversation: events, answers, guards and attempts."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from storage import answers, attempts, guards
from storage.answers import StoredAnswer
from storage.attempts import AttemptRecord
from storage.conversations import events
from storage.conversations.events import EventRecord
from storage.engine import Database
from storage.guards import GuardName, GuardRecord
from tests.support.sessions.stored_session import StoredSession

pytestmark = pytest.mark.both_databases

ANSWER = StoredAnswer("said", "model", 12, None, 345)
ATTEMPT = AttemptRecord(
    job_id=1,
    kind="micro",
    trigger="micro",
    outcome="absorbed",
    messages_before=9,
    messages_after=5,
    tokens_before=900,
    tokens_after=500,
    cursor=8,
    passes=1,
    tokens_saved=400,
    threshold_tokens=1000,
    absorbed_tokens=450,
    summary_tokens=50,
    summary_id=7,
    error_class="timeout",
    model="m",
    requests=1,
    prompt_tokens=600,
    completion_tokens=60,
    total_ms=1200,
    model_ms=1100,
)


@pytest.fixture
def session(database: Database) -> StoredSession:
    return StoredSession.create(database)


def record_event(connection: Connection, key: int, event_id: str, *, digest: str = "d") -> None:
    events.record(
        connection,
        key,
        event_id=event_id,
        digest=digest,
        turn=3,
        first_position=4,
        rows=5,
        usage=None,
        view_tokens=None,
        revision=6,
        at=7,
    )


def test_an_event_is_stored_once_in_a_session(database: Database, session: StoredSession) -> None:
    other = StoredSession.create(database, "other")
    with database.write() as connection:
        assert events.find(connection, session.key, "e") is None
        record_event(connection, session.key, "e")
        record_event(connection, session.key, "f")
        record_event(connection, other.key, "e", digest="another")
    with pytest.raises(IntegrityError), database.write() as connection:
        record_event(connection, session.key, "e", digest="second")
    with database.read() as connection:
        assert events.find(connection, session.key, "e") == EventRecord("d", 3, 4, 5, 6)


def test_the_first_answer_to_a_question_stays_until_it_is_dropped(
    database: Database, session: StoredSession
) -> None:
    other = StoredSession.create(database, "other")
    with database.write() as connection:
        answers.keep(connection, database, session.key, "q", ANSWER)
        answers.keep(connection, database, session.key, "q", replace(ANSWER, text="later"))
        answers.keep(connection, database, other.key, "q", replace(ANSWER, text="theirs"))
    with database.write() as connection:
        assert answers.find(connection, session.key, "q") == ANSWER
        answers.drop(connection, session.key, "q")
        assert answers.find(connection, session.key, "q") is None
        assert answers.find(connection, other.key, "q") is not None
        answers.drop(connection, session.key, "never kept")


def test_a_guard_is_what_was_put_last(database: Database, session: StoredSession) -> None:
    other = StoredSession.create(database, "other")
    with database.write() as connection:
        assert guards.read_all(connection, database, session.key) == {}
        name = GuardName.MICRO_FAILURES
        guards.put(connection, database, session.key, name, count=1, subject=4, detail="x")
        guards.put(connection, database, session.key, name, count=2)
        guards.put(connection, database, session.key, GuardName.UNDONE, subject=9)
        guards.put(connection, database, other.key, name, count=7)
        assert guards.read_all(connection, database, session.key) == {
            GuardName.MICRO_FAILURES: GuardRecord(2, None),
            GuardName.UNDONE: GuardRecord(0, 9),
        }
        guards.clear(connection, session.key, GuardName.MICRO_FAILURES, GuardName.DEFRAG_MARK)
        assert guards.read_all(connection, database, session.key).keys() == {GuardName.UNDONE}
        assert guards.read_all(connection, database, other.key) == {name: GuardRecord(7, None)}


def test_attempts_come_back_as_they_were_recorded_newest_last(
    database: Database, session: StoredSession
) -> None:
    assert all(getattr(ATTEMPT, field.name) for field in fields(ATTEMPT))  # else a mix-up hides
    blank = replace(ATTEMPT, summary_id=None, prompt_tokens=None, error_class=None, job_id=None)
    tried = [ATTEMPT, blank, replace(ATTEMPT, outcome="stale")]
    with database.write() as connection:
        for attempt in tried:
            attempts.record(connection, database, session.key, attempt)
        assert attempts.newest(connection, session.key, limit=9) == tried
        assert attempts.newest(connection, session.key, limit=2) == tried[1:]
        assert attempts.newest(connection, session.key + 1, limit=2) == []


def test_the_share_of_a_threshold_that_is_none_is_none() -> None:
    assert ATTEMPT.occupancy == 0.5
    assert replace(ATTEMPT, threshold_tokens=0).occupancy == 0
