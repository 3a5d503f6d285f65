"""The demo, from its file to its figures."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from afterturn.demo.figures import Findings, verify
from afterturn.demo.transcript import shipped_transcript, split_turns
from afterturn.exits import Exit
from producers import Gateway, Session
from storage.engine import Database, open_database
from tests.support.programs.command_line import ESCAPE, execute
from tests.support.sessions.conversations import turn
from tests.support.sessions.gateways import gateway_on
from workers.conversation.tokens import estimate_message

TURNS = 40
WINDOW = 18_000
COLUMNS = ("kind", "active", "compacted", "tokens", "opens_turn")


def test_figures_are_those_of_a_recount_and_alone_on_standard_output(tmp_path: Path) -> None:
    conversation = shipped_transcript()
    lines = [
        {"id": "other", "messages": turn(1)},
        {"id": "long", "messages": conversation.messages},
    ]
    (tmp_path / "talk.jsonl").write_text("\n".join(map(json.dumps, lines)))
    turns = split_turns(conversation.messages)[:TURNS]
    sent = [message for one in turns for message in one.messages]
    file = tmp_path / "kept.db"
    ended = execute(
        "demo", "--transcript", "talk.jsonl", "--session", "long", "--limit", str(TURNS),
        "--window", str(WINDOW), "--database", f"sqlite:///{file}", "--json",
        home=tmp_path,
    )  # fmt: skip
    figures = ended.document
    assert ended.code == Exit.OK, figures["checks"]
    assert figures["verdict"] == "pass"
    assert set(figures["checks"].values()) == {True}
    assert ended.err.splitlines()[0].startswith(f"turn   {TURNS} of {TURNS}: live ")
    assert ESCAPE not in ended.err
    expect_recount(figures, file, sent)
    expect_sense(figures)


def expect_recount(figures: dict[str, Any], file: Path, sent: list[dict[str, Any]]) -> None:
    """Check the figures against those counted from the kept database and the sent messages."""
    with closing(sqlite3.connect(file)) as database:
        rows = database.execute(f"SELECT {', '.join(COLUMNS)} FROM messages").fetchall()
        [passes] = database.execute("SELECT count(*) FROM summaries WHERE kind='micro'").fetchone()
    stored = [dict(zip(COLUMNS, row, strict=True)) for row in rows]
    messages = [row for row in stored if row["kind"] == "message"]
    live = [row for row in stored if row["active"]]
    assert figures["turns"] == TURNS
    assert figures["messages"] == len(sent) == len(messages)
    assert figures["tokens_unmanaged"] == sum(map(estimate_message, sent))
    assert figures["tokens_live"] == sum(row["tokens"] for row in live)
    assert figures["live_messages"] == sum(row["kind"] == "message" for row in live)
    assert figures["archived_messages"] == sum(row["compacted"] for row in messages)
    assert figures["live_markers"] == sum(row["kind"] != "message" for row in live) == 1
    assert figures["user_messages"] == sum(row["opens_turn"] for row in messages) == TURNS
    assert all(row["active"] for row in messages if row["opens_turn"])
    assert figures["user_messages_verbatim"] is True
    assert (figures["lost_messages"], figures["duplicate_messages"]) == (0, 0)
    assert figures["passes"] >= passes >= 3


def expect_sense(figures: dict[str, Any]) -> None:
    """Check that the figures agree with each other."""
    assert figures["threshold"] == 15_300
    assert figures["summariser"] == "local"
    assert 0 < figures["finalize_ms_p50"] <= figures["finalize_ms_p99"]
    assert figures["finalize_ms_p99"] <= figures["finalize_ms_max"]
    assert figures["occupancy_max"] >= figures["occupancy_last"]
    assert figures["occupancy_last"] == figures["tokens_live"] / figures["threshold"]
    assert figures["occupancy_unmanaged"] > 1 > figures["occupancy_max"]
    assert figures["batch_passes_needed"] == 0
    assert figures["occupancy_last_third"]["growth"] < figures["occupancy_last_third"]["unmanaged"]


def test_a_short_demo_for_people_ends_with_a_verdict_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "talk.json").write_text(json.dumps([*turn(1), *turn(2), *turn(3)]))
    ended = execute(
        "demo", "--transcript", "talk.json", home=tmp_path, env={"TMPDIR": str(tmp_path)}
    )
    assert ended.code == Exit.OK
    assert "12 messages sent, 0 lost" in ended.out
    assert "3 user messages word for word" in ended.out
    assert "too short to tell" in ended.out
    assert "PASS  3 turns" in ended.out
    assert ended.err == ""
    assert ESCAPE not in ended.out
    assert [path.name for path in tmp_path.iterdir()] == ["talk.json"]


def test_the_first_of_several_sessions_is_played_and_named(tmp_path: Path) -> None:
    lines = [{"id": name, "messages": turn(1)} for name in ("first", "second")]
    (tmp_path / "talk.jsonl").write_text("\n".join(map(json.dumps, lines)))
    ended = execute("demo", "--transcript", "talk.jsonl", "--json", home=tmp_path)
    assert ended.document["transcript"] == "first"
    assert ended.document["occupancy_last_third"]["flat"] is None
    assert "'first', the first of several sessions" in ended.err
    assert "--session" in ended.err


def test_a_file_that_cannot_be_played_is_refused_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "talk.json").write_text('[{"role": "user"}]')
    ended = execute("demo", "--transcript", "talk.json", "--json", home=tmp_path)
    assert ended.code == Exit.USAGE
    assert ended.out == ""
    assert "talk.json" in ended.err
    assert "messages[0].content" in ended.err
    assert len(ended.err.splitlines()) == 1


# --- what the check at the end finds ---------------------------------------------------------


@pytest.fixture
def stored(sqlite_url: str) -> Iterator[tuple[Database, Gateway, Session, list[dict[str, Any]]]]:
    """Yield a stored conversation, and what was sent."""
    sent = [*turn(1), *turn(2)]
    with gateway_on(sqlite_url) as gateway:
        session = gateway.open_session()
        gateway.finalize_turn(session, sent)
        database = open_database(sqlite_url)
        yield database, gateway, session, sent
        database.close()


def found(
    stored: tuple[Database, Gateway, Session, list[dict[str, Any]]], *statements: str
) -> Findings:
    """Return what is found after somebody changed the database behind our back."""
    database = stored[0]
    with database.write() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)
    return verify(*stored)


Stored = tuple[Database, Gateway, Session, list[dict[str, Any]]]


def test_an_untouched_conversation_is_whole(stored: Stored) -> None:
    whole = found(stored)
    assert (whole.lost_messages, whole.duplicate_messages, whole.altered_messages) == (0, 0, 0)
    assert whole.in_order
    assert whole.user_messages == 2
    assert whole.user_messages_verbatim
    assert whole.live_tokens == whole.counted_tokens


def test_a_message_that_is_gone_is_found(stored: Stored) -> None:
    gone = found(stored, "DELETE FROM messages WHERE position = 3")
    assert gone.lost_messages == 1
    assert not gone.in_order
    assert gone.live_tokens != gone.counted_tokens


def test_a_message_that_counts_as_rewound_is_lost(stored: Stored) -> None:
    assert found(stored, "UPDATE messages SET active = 0 WHERE position = 2").lost_messages == 1


def test_a_message_that_is_stored_twice_is_found(stored: Stored) -> None:
    twice = found(
        stored,
        "INSERT INTO messages (session_key, position, kind, role, tokens, content, fields,"
        " created_at) SELECT session_key, 90, kind, role, tokens, content, fields, created_at"
        " FROM messages WHERE position = 3",
    )
    assert (twice.lost_messages, twice.duplicate_messages) == (0, 1)


def test_a_message_that_was_altered_is_found(stored: Stored) -> None:
    altered = found(stored, "UPDATE messages SET content = content || '!' WHERE position = 3")
    assert (altered.lost_messages, altered.altered_messages) == (1, 1)


def test_messages_that_changed_places_are_found(stored: Stored) -> None:
    swapped = found(
        stored,
        "UPDATE messages SET position = 90 WHERE position = 3",
        "UPDATE messages SET position = 3 WHERE position = 7",
        "UPDATE messages SET position = 7 WHERE position = 90",
    )
    assert (swapped.lost_messages, swapped.duplicate_messages) == (0, 0)
    assert not swapped.in_order


def test_a_user_message_that_left_the_live_view_is_found(stored: Stored) -> None:
    archived = found(stored, "UPDATE messages SET active = 0, compacted = 1 WHERE position = 4")
    assert archived.lost_messages == 0
    assert not archived.user_messages_verbatim


def test_a_user_message_that_is_not_word_for_word_is_found(stored: Stored) -> None:
    assert not found(
        stored, "UPDATE messages SET content = content || '?' WHERE position = 0"
    ).user_messages_verbatim
