"""A list of values is one parameter, so that its length makes no other statement of it."""

from __future__ import annotations

import pytest

from storage.conversations import messages
from storage.engine import Database
from tests.support.observing.counting import counted
from tests.support.sessions.chat import assistant, user
from tests.support.sessions.stored_session import StoredSession

pytestmark = pytest.mark.both_databases


def test_rows_are_read_and_archived_by_the_same_statement_however_many_they_are(
    database: Database,
) -> None:
    session = StoredSession.create(database)
    session.append([user("x"), *(assistant(f"answer {n}") for n in range(40))])
    summary_id = session.absorb(session.view()[-1:], "summary")
    rows = [row for row in session.view() if row.role == "assistant"]
    parts = [rows[:1], rows[1:3], rows[3:]]
    with counted(database) as work, database.write() as connection:
        for part in parts:
            read = messages.read_rows(connection, session.key, [row.position for row in part])
            assert [row.message for row in read] == [row.message for row in part]
            gone = [row.id for row in part]
            assert messages.archive(connection, gone, summary_id=summary_id) == len(part)
            assert messages.archive(connection, gone, summary_id=summary_id) == 0
    assert sorted(work.texts.values()) == [len(parts), 2 * len(parts)]
    assert not [row for row in session.view() if row.role == "assistant"]


def test_a_value_that_fits_no_row_is_passed_over(database: Database) -> None:
    session = StoredSession.create(database)
    session.append([user("x")])
    with database.read() as connection:
        (row,) = messages.read_rows(connection, session.key, [-1, 0, 0, 2**62])
    assert row.position == 0
