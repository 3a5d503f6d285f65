"""One list of fields: a JSON document, a row of a table, lines, and what fits a terminal."""

from __future__ import annotations

import re
from contextlib import redirect_stdout
from io import StringIO
from typing import Any, TypeAlias

import pytest

from afterturn.commands.audit import ENTRY
from afterturn.commands.dead import DEAD
from afterturn.commands.guards import ENDPOINT
from afterturn.commands.runs import RUN
from afterturn.render.bulk import RUN_LISTED
from afterturn.render.console import Output
from afterturn.render.fields import (
    ID,
    MOMENT,
    NUMBER,
    SERIAL,
    Field,
    Fields,
    document,
    for_people,
    line,
    lines,
    show_table,
    table,
    within,
)
from afterturn.render.sessions import GUARD_OF_SESSION, SESSION, job_fields
from storage.attempts import AttemptRecord
from storage.history import TryRecord

Thing: TypeAlias = dict[str, Any]

SESSION_ID = "20261130_101112_deadbeef_telegram_group"
THING: Thing = {
    "id": 7,
    "at": 0,
    "session": SESSION_ID,
    "why": "automatic passes rest after a failure that nobody has looked into yet",
    "tokens": 123_456,
    "note": None,
}
FIELDS: Fields[Thing] = (
    Field("id", "no.", lambda one: one["id"], SERIAL),
    Field("at", "at", lambda one: one["at"], MOMENT, priority=2),
    Field("session", "session", lambda one: one["session"], ID),
    Field("why", "reason", lambda one: one["why"]),
    Field("tokens", "tokens", lambda one: one["tokens"], NUMBER, priority=1),
    Field("note", None, lambda one: one["note"]),
    for_people("comment", lambda one: one["note"] or "", priority=3),
)


def shown(monkeypatch: pytest.MonkeyPatch, columns: str | None, things: list[Thing]) -> list[str]:
    """Return a table of things as a pipe gets it, where COLUMNS says `columns`."""
    if columns is None:
        monkeypatch.delenv("COLUMNS", raising=False)
    else:
        monkeypatch.setenv("COLUMNS", columns)
    out = StringIO()
    with redirect_stdout(out):
        show_table(Output(), FIELDS, things)
    return out.getvalue().splitlines()


def test_keys_and_headings_come_from_one_list() -> None:
    assert document(FIELDS, THING) == {**THING, "at": "1970-01-01T00:00:00+00:00"}
    headings = [str(column.header) for column in table(FIELDS, [{**THING, "note": "x"}]).columns]
    assert headings == ["no.", "at", "session", "reason", "tokens", "comment"]


def test_empty_and_unwanted_columns_are_left_out() -> None:
    found = table(FIELDS, [THING], without=["session"])
    assert [str(column.header) for column in found.columns] == ["no.", "at", "reason", "tokens"]


def test_columns_that_matter_less_go_first_and_no_id_is_broken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for width, kept in (
        ("120", ["no.", "at", "session", "reason", "tokens"]),
        ("80", ["no.", "session", "reason", "tokens"]),
        ("66", ["no.", "session", "reason"]),
    ):
        found = shown(monkeypatch, width, [THING] * 3)
        heading = next(text for text in found if "no." in text)
        assert re.split(r"\s{2,}", heading.strip()) == kept
        assert sum(SESSION_ID in text for text in found) == 3
        assert max(map(len, found)) <= int(width)


def test_where_even_the_rest_does_not_fit_the_terminal_breaks_the_lines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = shown(monkeypatch, "40", [THING])
    assert any(SESSION_ID in text for text in found)


def test_a_pipe_gets_whole_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    thing = {**THING, "why": "word " * 60, "session": SESSION_ID * 3}
    found = shown(monkeypatch, None, [thing])
    [row] = [text for text in found if SESSION_ID * 3 in text]
    assert ("word " * 60).strip() in row
    assert "123,456" in row


def test_lines_show_what_has_words_and_a_line_all_columns() -> None:
    [names, _] = lines(FIELDS, THING).columns
    assert list(names.cells) == ["no.", "at", "session", "reason", "tokens"]
    assert line(FIELDS, THING, without=["at"]).startswith(f"     7  {SESSION_ID}  automatic")


def test_fields_of_a_part_are_fields_of_the_whole() -> None:
    whole: Fields[list[Thing]] = within(lambda things: things[0], FIELDS)
    assert document(whole, [THING]) == document(FIELDS, THING)
    assert [one.header for one in whole] == [one.header for one in FIELDS]
    assert whole[-1].words([{"note": "\x1b[2J"}]) == "\\x1b[2J"


@pytest.mark.parametrize(
    "fields", [SESSION, GUARD_OF_SESSION, job_fields(0), RUN, DEAD, ENDPOINT, ENTRY, RUN_LISTED]
)
def test_no_key_and_no_heading_stands_for_two_facts(fields: Fields[Any]) -> None:
    keys = [one.name for one in fields if one.name]
    headings = [one.header for one in fields if one.header]
    assert len(set(keys)) == len(keys)
    assert len(set(headings)) == len(headings)
    assert any(not one.priority for one in fields if one.header)


def test_every_figure_of_an_attempt_has_a_key() -> None:
    attempt = AttemptRecord(1, "micro", "micro", "absorbed", 9, 8, 900, 800, 4, 1, 100, 3_400)
    found = document(RUN, TryRecord(1, "local", "s", 0, attempt))
    assert set(AttemptRecord.__dataclass_fields__) <= set(found)
