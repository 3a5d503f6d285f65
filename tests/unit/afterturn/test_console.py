"""What is written, and where."""

from __future__ import annotations

import json
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO

import pytest

from afterturn.render.console import Output, plain
from afterturn.render.fields import cell, columns, facts
from afterturn.render.transcript import blocks
from afterturn.render.words import count, duration, moment_utc, number, share
from workers.conversation.markers import frame


def written(*renderables: object) -> str:
    out = StringIO()
    with redirect_stdout(out):
        Output().show(*renderables)  # type: ignore[arg-type] # whatever rich prints
    return out.getvalue()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("\x1b[2J gone", "\\x1b[2J gone"),
        ("bell \x07, C1 \x9b31m, back \r over", "bell \\x07, C1 \\x9b31m, back \\x0d over"),
        ("turned \u202e round", "turned \\u202e round"),
        ("half \ud83d of a pair", "half \\ud83d of a pair"),
        ("漢字 and [brackets]", "漢字 and [brackets]"),
    ],
)
def test_stored_text_cannot_steer_a_terminal(text: str, shown: str) -> None:
    assert plain(text) == shown


def test_a_document_is_the_same_when_read_back_whatever_is_in_it() -> None:
    value = {"text": "漢 \ud83d \x1b[0m \u2028", "list": [1, None, 0.5]}
    out = StringIO()
    with redirect_stdout(out):
        Output(as_json=True).document(value)
    assert out.getvalue().isascii()
    assert json.loads(out.getvalue()) == value


def test_notices_never_reach_standard_output() -> None:
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        Output().notice("by the way " * 30)
    assert out.getvalue() == ""
    assert err.getvalue() == "by the way " * 30 + "\n"


def test_nothing_in_a_table_is_taken_as_markup_or_cut() -> None:
    table = columns("id", ">tokens")
    table.add_row(cell("[bold]x[/bold] " + "y" * 90), "1,000")
    shown = written(table, facts([("[name]", "[value]")]))
    assert "[bold]x[/bold]" in shown
    assert shown.count("y") == 90
    assert "[value]" in shown


def test_numbers_read_as_people_write_them() -> None:
    assert [number(None), number(1234567)] == ["–", "1,234,567"]
    assert [share(None), share(0.3333)] == ["–", "33.3 %"]
    assert [count(1, "turn"), count(2, "turn")] == ["1 turn", "2 turns"]
    assert moment_utc(0) == "1970-01-01T00:00:00+00:00"


@pytest.mark.parametrize(
    ("ms", "words"),
    [
        (0, "0 ms"),
        (820, "820 ms"),
        (12_000, "12.0 s"),
        (180_000, "3 min"),
        (18_000_000, "5 h"),
        (200_000_000, "2 d"),
    ],
)
def test_durations_have_the_unit_that_fits(ms: int, words: str) -> None:
    assert duration(ms) == words


def test_a_conversation_shows_speakers_calls_results_parts_and_summaries() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "find", "arguments": '{"q": 1}'}}
    use = {"type": "tool_use", "id": "2", "name": "look", "input": {"at": "漢"}}
    result = {"type": "tool_result", "tool_use_id": "2", "content": [{"type": "text", "text": "A"}]}
    shown = "\n".join(
        block.plain
        for block in blocks(
            [
                {"role": "user", "content": frame("What was said before.")},
                {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]},
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "name": "find", "tool_call_id": "1", "content": "one\ntwo"},
                {"role": "assistant", "content": [use]},
                {"role": "user", "content": [result]},
            ]
        )
    )
    assert "1 user, summary of earlier messages\n  [Summary" in shown
    assert "2 user\n  [image_url]" in shown
    assert '3 assistant\n  calls find({"q": 1})' in shown
    assert "4 tool find\n  one\n  two" in shown
    assert '5 assistant\n  calls look({"at": "漢"})' in shown
    assert "6 user\n  result: A" in shown
