"""What every pass begins with is what the several reads of it give."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from storage import answers, guards
from storage.answers import StoredAnswer
from storage.conversations import cursors, sessions
from storage.conversations.cursors import CursorName
from storage.conversations.micro_reads import MicroState, read_state
from storage.engine import Database
from storage.errors import SessionNotFound
from storage.guards import GuardName
from tests.support.sessions.stored_session import StoredSession

ANSWER = StoredAnswer("text", "m", 1, 2, 3)


def one_by_one(database: Database, key: int, *, has_answers: bool) -> MicroState:
    with database.read() as connection:
        return MicroState(
            sessions.fetch(connection, key),
            cursors.read(connection, key, CursorName.MICRO),
            guards.read_all(connection, database, key),
            has_answers,
        )


def at_once(database: Database, key: int) -> MicroState:
    with database.read() as connection:
        return read_state(connection, database, key)


def test_one_statement_gives_session_cursor_guards_and_whether_there_are_answers(
    database: Database,
) -> None:
    one, other = StoredSession.create(database, "one"), StoredSession.create(database, "other")
    for session in (one, other):
        assert at_once(database, session.key) == one_by_one(
            database, session.key, has_answers=False
        )
    with database.write() as connection:
        cursors.move_all(connection, one.key, {CursorName.TURNS: 7, CursorName.MICRO: 5})
        guards.put(connection, database, one.key, GuardName.UNDONE, subject=3)
        answers.keep(connection, database, one.key, "q", ANSWER)
    assert at_once(database, one.key) == one_by_one(database, one.key, has_answers=True)
    assert at_once(database, one.key).cursor == 5
    with database.write() as connection:
        guards.put(connection, database, one.key, GuardName.DEFRAG_MARK, subject=4, detail="d")
        answers.drop(connection, one.key, "q")
    held = at_once(database, one.key)
    assert held == one_by_one(database, one.key, has_answers=False)
    assert set(held.guards) == {GuardName.UNDONE, GuardName.DEFRAG_MARK}
    # Nothing of it is the other one's.
    assert at_once(database, other.key) == one_by_one(database, other.key, has_answers=False)


def test_guards_of_a_newer_version_are_left_alone(database: Database) -> None:
    session = StoredSession.create(database)
    with database.write() as connection:
        connection.execute(
            text("INSERT INTO guards (session_key, name, updated_at) VALUES (:key, :name, 0)"),
            {"key": session.key, "name": "of_tomorrow"},
        )
    assert at_once(database, session.key).guards == {}


def test_a_session_that_does_not_exist_is_an_error(database: Database) -> None:
    with pytest.raises(SessionNotFound):
        at_once(database, 99)
