"""Sessions belong to owners, are made once, and count what is in them."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from storage.conversations import sessions
from storage.conversations.sessions import SessionRecord
from storage.engine import Database
from storage.errors import SessionNotFound
from tests.support.observing.at_once import at_once, succeeded
from tests.support.sessions.chat import assistant, user
from tests.support.sessions.stored_session import StoredSession, dump, later

pytestmark = pytest.mark.both_databases

CHAT: dict[str, Any] = {"source": "telegram", "chat_id": "42", "thread_id": "7"}


def create(database: Database, owner: str, session_id: str, **facts: Any) -> SessionRecord | None:
    values = {"owner": owner, "id": session_id, "source": "cli", **facts}
    with database.write() as connection:
        return sessions.create(connection, database, values)


def find_chat(database: Database, owner: str = "o", **other: str) -> SessionRecord | None:
    with database.read() as connection:
        return sessions.find_chat(connection, owner=owner, **{**CHAT, **other})


def get_or_create(database: Database, session_id: str, **facts: Any) -> SessionRecord:
    """Return what a gateway does to open a session: look, make it, or look again."""
    while True:
        with database.write() as connection:
            if "chat_id" in facts:
                record = sessions.find_chat(connection, owner="o", **facts)
            else:
                record = sessions.find(connection, owner="o", session_id=session_id)
            values = {"owner": "o", "id": session_id, "source": "cli", **facts}
            record = record or sessions.create(connection, database, values)
        if record is not None:
            return record


def test_a_new_session_is_empty(database: Database) -> None:
    record = create(database, "o", "s", model="m", context_window=8000)
    assert record is not None
    assert (record.owner, record.id, record.source, record.model) == ("o", "s", "cli", "m")
    assert (record.live_messages, record.live_tokens, record.next_position) == (0, 0, 0)
    assert (record.turns, record.passes, record.revision, record.turn_open) == (0, 0, 0, False)
    assert (record.ended_at, record.thread_id, record.context_window) == (None, "", 8000)
    assert 0 <= record.active_at - record.started_at < 10_000


def test_an_owner_has_one_session_of_an_id_and_others_have_theirs(database: Database) -> None:
    first = create(database, "one", "s")
    before = dump(database)
    assert create(database, "one", "s", title="another") is None
    assert dump(database) == before
    second = create(database, "two", "s")
    assert first is not None
    assert second is not None
    assert first.key != second.key
    with database.read() as connection:
        assert sessions.find(connection, owner="one", session_id="s") == first
        assert sessions.find(connection, owner="two", session_id="s") == second
        assert sessions.find(connection, owner="three", session_id="s") is None


def test_a_title_is_used_once_by_an_owner(database: Database) -> None:
    assert create(database, "one", "a", title="Trip") is not None
    assert create(database, "one", "b", title="Trip") is None
    assert create(database, "two", "a", title="Trip") is not None
    assert create(database, "one", "c") is not None
    assert create(database, "one", "d") is not None
    with database.read() as connection:
        assert sessions.has_title(connection, owner="one", title="Trip")
        assert not sessions.has_title(connection, owner="three", title="Trip")


def test_two_chats_never_share_a_session(database: Database) -> None:
    keys = set()
    for number, other in enumerate(
        ({}, {"chat_id": "43"}, {"thread_id": "8"}, {"thread_id": ""}, {"source": "slack"})
    ):
        record = create(database, "o", f"{number}", **{**CHAT, **other})
        assert record is not None
        assert find_chat(database, **other) == record
        keys.add(record.key)
    assert len(keys) == 5
    assert create(database, "o", "again", **CHAT) is None
    assert find_chat(database, owner="somebody else") is None


def test_the_chat_of_a_closed_session_is_free_for_a_new_one(database: Database) -> None:
    old = create(database, "o", "old", **CHAT)
    assert old is not None
    with database.write() as connection:
        closed = sessions.close(connection, database, old.key)
    assert closed.ended_at is not None
    assert not closed.turn_open
    assert find_chat(database) is None
    new = create(database, "o", "new", **CHAT)
    assert find_chat(database) == new
    with pytest.raises(IntegrityError), database.write() as connection:
        sessions.reopen(connection, old.key)
    assert new is not None
    with database.write() as connection:
        sessions.close(connection, database, new.key)
        assert sessions.reopen(connection, old.key).ended_at is None
    found = find_chat(database)
    assert found is not None
    assert found.key == old.key


@pytest.mark.parametrize("facts", [{}, CHAT], ids=["by id", "by chat"])
def test_threads_that_open_the_same_session_get_the_same_one(
    database: Database, facts: dict[str, Any]
) -> None:
    calls = [
        partial(get_or_create, database, f"{number if facts else 's'}", **facts)
        for number in range(12)
    ]
    opened = succeeded(at_once(calls))
    assert len({record.key for record in opened}) == 1
    assert len(dump(database)["sessions"]) == 1


def test_the_first_system_prompt_is_kept(database: Database) -> None:
    session = StoredSession.create(database)
    with database.write() as connection:
        assert sessions.read_prompt(connection, session.key) is None
        sessions.keep_prompt(connection, session.key, "first\r\n\x00 ")
        sessions.keep_prompt(connection, session.key, "second")
    with database.read() as connection:
        assert sessions.read_prompt(connection, session.key) == "first\r\n\x00 "


def test_appended_rows_are_counted_and_get_the_next_positions(database: Database) -> None:
    session = StoredSession.create(database)
    assert session.append([user("a")], closes_turn=False) == range(1)
    assert session.record().turn_open
    assert session.append([assistant("b"), user("c")]) == range(1, 3)
    assert session.append([]) == range(3, 3)
    record = session.record()
    assert (record.next_position, record.turns, record.turn_open) == (3, 2, False)
    assert session.counted() == session.live_rows()
    assert record.live_messages == 3
    assert record.revision == 0


def test_appending_says_when_the_session_was_used_last(database: Database) -> None:
    session = StoredSession.create(database)
    started = session.record().active_at
    StoredSession(later(database, 5000), session.key).append([user("a")])
    assert session.record().active_at - started >= 5000
    assert session.record().started_at == started


def test_positions_of_threads_that_append_at_once_never_meet(database: Database) -> None:
    session = StoredSession.create(database)
    calls = [partial(session.append, [user(f"{n}"), assistant("x"), user("y")]) for n in range(12)]
    taken = succeeded(at_once(calls))
    assert sorted(place for places in taken for place in places) == list(range(36))
    view = session.view()
    for places in taken:
        first = next(row for row in view if row.position == places.start)
        assert (first.message or {})["content"] in {f"{n}" for n in range(12)}
    assert session.counted() == session.live_rows()
    assert session.record().turns == 12


@pytest.mark.parametrize(
    ("change", "grows"),
    [
        ({}, 0),
        ({"model_config": '{"temperature": 1}'}, 0),
        ({"model": "other"}, 1),
        ({"context_window": 9000}, 1),
        ({"context_window": None}, 1),
        ({"reserved_output": 1}, 1),
    ],
)
def test_the_revision_grows_where_model_or_window_change(
    database: Database, change: dict[str, Any], grows: int
) -> None:
    facts: dict[str, Any] = {"model": "m", "context_window": 8000, "reserved_output": 0}
    session = StoredSession.create(database, **facts)
    with database.write() as connection:
        now = sessions.set_model(
            connection, session.key, **{"model_config": None, **facts, **change}
        )
    assert now.revision == grows
    assert now == session.record()


def test_a_session_that_does_not_exist_is_its_own_error(database: Database) -> None:
    with database.write() as connection:
        counted = sessions.count_appended(
            connection, database, 404, rows=1, tokens=1, closes_turn=True
        )
        assert counted is None
        for call in (sessions.fetch, sessions.lock, sessions.reopen):
            with pytest.raises(SessionNotFound):
                call(connection, 404)


def test_sessions_are_listed_by_last_use_in_pages(database: Database) -> None:
    for number in range(7):
        create(database, f"{number % 2}", f"{number}", source="a" if number < 4 else "b")
    with database.write() as connection:
        # Sessions that were used at the very same time must be listed once each too.
        connection.execute(text("UPDATE sessions SET active_at = 1000 * (1 + length(source))"))
        connection.execute(text("UPDATE sessions SET active_at = 1 WHERE id IN ('2', '5')"))
    seen: list[str] = []
    before: tuple[int, int] | None = None
    with database.read() as connection:
        while page := sessions.page(connection, limit=3, before=before):
            seen += [record.id for record in page]
            before = (page[-1].active_at, page[-1].key)
        assert seen == ["6", "4", "3", "1", "0", "5", "2"]
        of_one = sessions.page(connection, owner="1", source="a")
    assert [record.id for record in of_one] == ["3", "1"]
