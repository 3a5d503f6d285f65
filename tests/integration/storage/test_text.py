"""Whatever a gateway stores comes back byte for byte, from both databases."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import text

from storage import answers
from storage.answers import StoredAnswer
from storage.conversations import cursors, messages, sessions, summaries
from storage.conversations.cursors import CursorName
from storage.conversations.messages import Draft
from storage.conversations.rows import Origin
from storage.engine import Database
from storage.jobs import JobKind
from tests.support.sessions.chat import assistant, user
from tests.support.sessions.payloads import chat_dicts, strings, written
from tests.support.sessions.stored_session import StoredSession
from tests.tiers import examples

pytestmark = pytest.mark.both_databases

AWKWARD = (
    "",
    "a\x00b\x00",
    "half a pair \ud83d and the other half \ude00",
    "both halves side by side \ud83d\ude00",
    "\ufdd0 and \ufdd00000",
    "Grüße 北京 한국어 😀 \U0010ffff",
    "line\r\nline\u2028\\ \" ' % :name %(name)s ?",
)
MEGABYTE = "北京\x00" + "All work and no play. " * 47_663

store = examples(15, any_health=True)


def drafts_of(chat: list[dict[str, Any]]) -> list[Draft]:
    return [Draft(message, 1, message["role"], None, False, (), ()) for message in chat]


def stored(database: Database, chat: list[dict[str, Any]]) -> list[Any]:
    """Return what comes back of `chat` after it was stored in a session of its own."""
    key = StoredSession.create(database, uuid4().hex).key
    with database.write() as connection:
        messages.append(connection, key, drafts_of(chat), first_position=0, at=0)
    with database.read() as connection:
        return [row.message for row in messages.read_view(connection, key)]


@given(chat=st.lists(chat_dicts(), min_size=1, max_size=6))
@store
def test_any_chat_dict_comes_back_byte_for_byte(
    database: Database, chat: list[dict[str, Any]]
) -> None:
    assert [written(message) for message in stored(database, chat)] == [
        written(message) for message in chat
    ]


@pytest.mark.parametrize("said", [*AWKWARD, MEGABYTE], ids=lambda said: repr(said[:12]))
def test_awkward_text_comes_back_wherever_it_stands(database: Database, said: str) -> None:
    chat = [user(said), user([{"type": "text", "text": said}]), assistant(said, x={said: said})]
    assert [written(m) for m in stored(database, chat)] == [written(m) for m in chat]


def test_a_message_can_be_found_by_its_text(database: Database) -> None:
    StoredSession.create(database).append([user("Where is 北京?"), assistant("There.")])
    with database.read() as connection:
        found = connection.execute(
            text("SELECT position FROM messages WHERE content LIKE '%北京%'")
        )
        assert found.scalars().all() == [0]


@given(said=strings())
@store
def test_any_text_comes_back_from_every_other_column_too(database: Database, said: str) -> None:
    owner = uuid4().hex + said
    session = StoredSession.create(database, said, owner=owner, chat_id=said, title=said)
    with database.write() as connection:
        sessions.keep_prompt(connection, session.key, said)
        question = f"q{said}"
        answer = StoredAnswer(said, said, None, 7, 0)
        answers.keep(connection, database, session.key, question, answer)
    session.append([user("x")])
    session.absorb(session.view(), said)
    with database.read() as connection:
        record = sessions.find(connection, owner=owner, session_id=said)
        assert record is not None
        assert (record.owner, record.chat_id, record.title) == (owner, said, said)
        assert sessions.read_prompt(connection, session.key) == said
        assert answers.find(connection, session.key, question) == answer
        live = summaries.newest_live(connection, session.key)
        assert live is not None
        assert live.text == said
    assert session.view()[0].summary == said


def test_outlines_carry_what_the_rules_ask_for(database: Database) -> None:
    session = StoredSession.create(database)
    calls = ("call_1", "call_1", "fc/äö \x00\ud83d id")
    draft = Draft(assistant("x"), 3, "assistant", Origin.TOOL, True, calls, ("call_0",))
    with database.write() as connection:
        messages.append(connection, session.key, [draft], first_position=4, at=0)
    with database.read() as connection:
        (row,) = messages.read_forward(connection, session.key, start=0, limit=9)
    assert (row.position, row.tokens, row.role, row.origin) == (4, 3, "assistant", Origin.TOOL)
    assert (row.calls, row.answers, row.opens_turn) == (calls, ("call_0",), True)
    assert row.message is None


def test_enumerations_are_stored_as_their_values(database: Database) -> None:
    session = StoredSession.create(database)
    session.append([user("x")])
    session.absorb(session.view(), "sum")
    session.enqueue(JobKind.MICRO)
    with database.write() as connection:
        cursors.move(connection, session.key, CursorName.TURNS, 1)
    with database.read() as connection:

        def ask(query: str) -> list[Any]:
            return list(connection.execute(text(query)).scalars())

        assert ask("SELECT kind FROM messages ORDER BY id") == ["message", "micro"]
        assert ask("SELECT origin FROM messages WHERE origin IS NOT NULL") == ["person"]
        assert ask("SELECT name FROM cursors ORDER BY name") == ["micro", "turns"]
        assert ask("SELECT status FROM summaries") == ["live"]
        assert ask("SELECT kind FROM jobs") == ["micro"]
