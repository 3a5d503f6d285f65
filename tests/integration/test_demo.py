"""The demo, from its file to its figures."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from afterturn.demo.transcript import shipped_transcript
from afterturn.demo.turns import split_turns
from afterturn.demo.verify import Findings, verify
from afterturn.exits import Exit
from producers import Gateway, Session
from storage.engine import Database, open_database
from tests.command_line import ESCAPE, Ended, execute
from tests.conversations import turn
from tests.gateways import gateway_on
from workers.tokens import estimate_message

TURNS = 40
WINDOW = 12_000
COLUMNS = ("kind", "active", "compacted", "tokens", "opens_turn")


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[Ended, Path, list[dict[str, Any]]]:
    """A demo with the first turns of the shipped conversation, what it kept, what was sent."""
    home = tmp_path_factory.mktemp("demo")
    conversation = shipped_transcript()
    lines = [
        {"id": "other", "messages": turn(1)},
        {"id": "long", "messages": conversation.messages},
    ]
    (home / "talk.jsonl").write_text("\n".join(map(json.dumps, lines)))
    sent = [
        message for one in split_turns(conversation.messages)[:TURNS] for message in one.messages
    ]
    ended = execute(
        "demo", "--transcript", "talk.jsonl", "--session", "long", "--limit", str(TURNS),
        "--window", str(WINDOW), "--database", f"sqlite:///{home}/kept.db", "--json",
        home=home,
    )  # fmt: skip
    return ended, home / "kept.db", sent


def test_the_figures_are_those_of_a_recount(
    played: tuple[Ended, Path, list[dict[str, Any]]],
) -> None:
    ended, file, sent = played
    figures = ended.document
    rows = sqlite3.connect(file).execute(
        f"SELECT {', '.join(COLUMNS)} FROM messages"
    )
    stored = [dict(zip(COLUMNS, row, strict=True)) for row in rows]
    messages = [row for row in stored if row["kind"] == "message"]
    live = [row for row in stored if row["active"]]
    assert ended.code == Exit.OK, figures["checks"]
    assert figures["verdict"] == "pass"
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
    passes = sqlite3.connect(file).execute("SELECT count(*) FROM summaries WHERE kind = 'micro'")
    assert figures["passes"] >= passes.fetchone()[0] >= 3
    assert figures["threshold"] == 10_200
    assert figures["summariser"] == "local"


def test_the_figures_hang_together(played: tuple[Ended, Path, list[dict[str, Any]]]) -> None:
    figures = played[0].document
    assert 0 < figures["finalize_ms_p50"] <= figures["finalize_ms_p99"]
    assert figures["finalize_ms_p99"] <= figures["finalize_ms_max"]
    assert figures["occupancy_max"] >= figures["occupancy_last"]
    assert figures["occupancy_last"] == figures["tokens_live"] / figures["threshold"]
    assert figures["occupancy_unmanaged"] > 1 > figures["occupancy_max"]
    assert figures["batch_passes_needed"] == 0
    assert figures["occupancy_last_third"]["growth"] < figures["occupancy_last_third"]["unmanaged"]
    assert set(figures["checks"].values()) == {True}


def test_programs_get_json_alone_and_progress_goes_elsewhere(
    played: tuple[Ended, Path, list[dict[str, Any]]],
) -> None:
    ended = played[0]
    assert ended.err.splitlines()[0].startswith(f"turn   {TURNS} of {TURNS}: live ")
    assert ESCAPE not in ended.err


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
    """A stored conversation, and what was sent."""
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
    """What is found after somebody changed the database behind our back."""
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
    for lost in ("DELETE FROM messages WHERE position = 3",
                 "UPDATE messages SET active = 0 WHERE position = 2"):  # fmt: skip
        assert found(stored, lost).lost_messages in {1, 2}
    assert found(stored).lost_messages == 2
    assert not found(stored).in_order
    assert found(stored).live_tokens != found(stored).counted_tokens


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
