"""Handles and notes, and how a copied note is distinguished from content."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.sessions.payloads import strings
from tests.tiers import examples
from workers.prune.findings import trouble
from workers.prune.forms import Form, Registry
from workers.prune.notes import (
    Handle,
    HandleError,
    argument_left_out,
    holds_note,
    images_left_out,
    left_out,
    one_line,
    quoted,
    same_again,
)

HANDLE = Handle(12, 345)
PROPERTY = examples(100)


@PROPERTY
@given(st.integers(0, 10**17), st.integers(0, 10**17))
def test_a_handle_is_read_as_it_was_written(key: int, position: int) -> None:
    handle = Handle(key, position)
    assert Handle.parse(str(handle)) == handle


@PROPERTY
@given(strings())
def test_anything_else_is_refused_in_short_words(text: str) -> None:
    with pytest.raises(HandleError) as refused:
        Handle.parse(f"x{text}")
    assert len(str(refused.value)) < 800


@PROPERTY
@given(strings(), strings())
def test_a_note_is_one_line_that_is_found_wherever_it_was_copied_to(what: str, facts: str) -> None:
    what, facts = quoted(what, 80), quoted(facts, 80)
    for note in (
        left_out(what, facts, HANDLE),
        same_again(what, facts, HANDLE),
        argument_left_out(facts, HANDLE),
        images_left_out(2, HANDLE),
    ):
        assert len(note.splitlines()) == 1
        assert note.endswith("; whole: out-12-345⟧")
        assert holds_note(note)
        assert holds_note(json.dumps({"content": f"before {note} after"}, ensure_ascii=False))


@pytest.mark.parametrize("text", ["", "⟦", "⟦a⟧", "out-12-345", "[left out; whole: out-1-2]"])
def test_what_people_write_is_no_note(text: str) -> None:
    assert not holds_note(text)


@PROPERTY
@given(strings(), st.integers(1, 90))
def test_a_line_has_the_room_that_it_is_given(text: str, room: int) -> None:
    line = one_line(text, room)
    assert len(line) <= room
    assert len(line.splitlines()) <= 1


@pytest.mark.parametrize(
    "text",
    [
        "12 passed, 0 errors in 3 s",
        "no errors found",
        "-rw-r--r-- 1 root root 6744 error.c",
        "errors: 0",
        "",
    ],
)
def test_what_went_well_shows_no_trouble(text: str) -> None:
    assert trouble(f"{text}\nall good\n") == ""


def test_a_long_line_is_cut_around_what_it_says() -> None:
    line = "x" * 900 + " PermissionError: may not touch " + "y" * 900
    noted = trouble(f"fine\n{line}\nfine")
    assert "PermissionError: may not touch" in noted
    assert len(noted) <= 300


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("bash", Form.SHELL),
        ("Bash", Form.SHELL),
        ("mcp__files__read_file", Form.READ),
        ("functions.web_search", Form.WEB),
        ("Grep", Form.SEARCH),
        ("apply_patch", Form.PATCH),
        ("browser_navigate", Form.BROWSER),
        ("delegate_task", Form.DELEGATION),
        ("run_python", Form.CODE),
        ("nobody_knows", Form.OTHER),
        ("", Form.OTHER),
        ("todo_write", None),
    ],
)
def test_a_tool_is_known_by_its_name(name: str, form: Form | None) -> None:
    assert Registry(("todo*",), {}).form_of(name) is form


def test_configured_names_come_before_built_in_ones_and_exempt_ones_before_both() -> None:
    registry = Registry(("bash_rules",), {"bash*": "read"})
    assert registry.form_of("bash") is Form.READ
    assert registry.form_of("bash_rules") is None
