"""Which files the demo can play."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from afterturn.demo.transcript import (
    IN_PIECES_EVERY,
    REPEATED_EVERY,
    TranscriptError,
    parse_transcript,
    read_transcript,
    shipped_transcript,
    split_turns,
)
from workers.conversation.messages import outline

USER = {"role": "user", "content": "Is it late?\u2028Or \x85 not?"}
ANSWER = {"role": "assistant", "content": "No."}


def session(name: str, messages: list[Any]) -> str:
    return json.dumps({"id": name, "source": "here", "messages": messages}, ensure_ascii=False)


@pytest.mark.parametrize(
    "content",
    [
        json.dumps([USER, ANSWER], indent=1),
        json.dumps({"messages": [USER, ANSWER]}),
        session("a", [USER, ANSWER]),
        "\n" + session("a", [USER, ANSWER]) + "\n\n" + session("b", [ANSWER]) + "\n",
        "\ufeff" + session("a", [USER, ANSWER]),
    ],
    ids=["list", "object", "one line", "several lines", "byte order mark"],
)
@pytest.mark.parametrize("packed", [False, True])
def test_lists_objects_and_json_lines_are_read(content: str, packed: bool) -> None:
    raw = content.encode()
    found = parse_transcript(gzip.compress(raw) if packed else raw, "file")
    assert found.messages == (USER, ANSWER)


def test_the_first_of_several_sessions_says_that_there_are_more() -> None:
    alone, several = session("a", [USER]), f"{session('a', [USER])}\n{session('b', [ANSWER])}\n"
    assert not parse_transcript(alone.encode(), "file").one_of_several
    assert parse_transcript(several.encode(), "file").one_of_several
    assert not parse_transcript(several.encode(), "file", "a").one_of_several


def test_a_session_is_chosen_by_its_id() -> None:
    lines = f"{session('a', [USER])}\n{session('b', [USER, ANSWER])}".encode()
    assert parse_transcript(lines, "file", "b").messages == (USER, ANSWER)
    with pytest.raises(TranscriptError, match="holds no session 'c'"):
        parse_transcript(lines, "file", "c")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "holds no conversation"),
        (b"\xff\xfe\x00", "no UTF-8 text"),
        (b"\x1f\x8bnonsense", "no gzip"),
        (b"hello", "line 1: is neither JSON"),
        (session("a", []).encode(), "'a' has no messages"),
        (b'{"turns": []}', "a list of chat messages"),
        (b"17", "a list of chat messages"),
        (b'[{"role": "robot", "content": "x"}]', r"messages\[0\]\.role"),
        (b'[{"role": "tool", "content": "x"}]', r"messages\[0\]\.tool_call_id"),
    ],
)
def test_other_files_are_refused_with_the_place_that_is_wrong(
    content: bytes, expected: str
) -> None:
    with pytest.raises(TranscriptError, match=expected) as caught:
        parse_transcript(content, "some.json")
    assert str(caught.value).startswith("some.json")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(TranscriptError, match="No such file"):
        read_transcript(tmp_path / "none.json")


def test_the_shipped_conversation_is_long_real_and_ends_with_a_turn() -> None:
    shipped = shipped_transcript()
    roles = [message["role"] for message in shipped.messages]
    assert len(shipped.messages) == 1000
    assert roles[0] == "system"
    assert roles.count("system") == 1
    assert roles[-1] == "assistant"
    notice = (Path(__file__).parents[3] / "afterturn" / "demo" / "FIXTURE.md").read_text()
    assert f"{roles.count('user')} turns" in notice
    assert "Copyright (c) 2024 Sierra" in notice


def test_turns_begin_at_real_user_messages_and_hold_every_message_once() -> None:
    notice = {"role": "user", "content": "   "}
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "assistant", "content": "Hello."},
        USER,
        ANSWER,
        USER,
        notice,
        ANSWER,
        USER,
    ]
    turns = split_turns(messages)
    assert [turn.messages for turn in turns] == [
        tuple(messages[:4]),
        tuple(messages[4:7]),
        tuple(messages[7:]),
    ]
    assert [turn.number for turn in turns] == [1, 2, 3]


def test_a_conversation_without_a_request_is_one_turn() -> None:
    assert [turn.messages for turn in split_turns([ANSWER, ANSWER])] == [(ANSWER, ANSWER)]


def test_some_turns_are_stored_in_pieces_and_some_are_sent_twice() -> None:
    turns = split_turns(shipped_transcript().messages)
    in_pieces = [turn.number for turn in turns if turn.early]
    twice = [turn.number for turn in turns if turn.repeated]
    assert len(in_pieces) > 50
    assert all(number % IN_PIECES_EVERY == 0 for number in in_pieces)
    assert twice == list(range(REPEATED_EVERY, len(turns) + 1, REPEATED_EVERY))
    assert all(len(turn.late) >= 1 for turn in turns)
    assert all(outline(turn.messages[0]).opens_turn for turn in turns[1:])
