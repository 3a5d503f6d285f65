"""Worked examples of the strict dialect."""

from __future__ import annotations

from storage.conversations.rows import Origin
from tests.support.sessions.chat import (
    assistant,
    calling,
    result,
    strict,
    system,
    text,
    user,
    with_marker,
)
from tests.support.sessions.strategies import rows_of
from workers.conversation.markers import frame
from workers.rendering import Dialect, render
from workers.rendering.calls import BRIDGE_LINE, OPENING_LINE


def test_strict_joins_all_system_rows_into_a_leading_one() -> None:
    messages = strict(
        {"role": "developer", "content": "one"}, system("two"), user("q"), system("three")
    )
    assert messages == [system("one\n\ntwo\n\nthree"), user("q")]


def test_strict_joins_user_rows_before_the_newest_which_stands_alone() -> None:
    assert strict(user("a"), user("b"), user("c"), assistant("r"), user("d")) == [
        user("a\n\nb\n\nc"),
        assistant("r"),
        user("d"),
    ]
    assert strict(user("a"), user("b"), user("c")) == [
        user("a\n\nb"),
        assistant(BRIDGE_LINE),
        user("c"),
    ]


def test_strict_joins_a_marker_with_older_user_rows_but_never_with_the_newest() -> None:
    rows = with_marker([user("a")], "S", [user("b")])
    framed = frame("S")
    assert render(rows, Dialect.STRICT).messages == [
        user(f"a\n\n{framed}"),
        assistant(BRIDGE_LINE),
        user("b"),
    ]


def test_strict_keeps_a_marker_behind_the_newest_request_apart_from_it() -> None:
    rows = with_marker([user("a")], "S", [calling("x"), result("x", "1")])
    assert render(rows, Dialect.STRICT).messages == [
        user("a"),
        assistant(BRIDGE_LINE),
        user(frame("S")),
        calling("x"),
        result("x", "1"),
    ]


def test_strict_bridges_user_rows_with_tool_flow_between() -> None:
    assert strict(user("a"), calling("x"), result("x", "1"), user("b"), user("c")) == [
        user("a"),
        calling("x"),
        result("x", "1"),
        assistant(BRIDGE_LINE),
        user("b"),
        assistant(BRIDGE_LINE),
        user("c"),
    ]


def test_strict_joins_notices_behind_the_newest_request_among_themselves() -> None:
    rows = rows_of([user("a"), user("n1"), user("n2")], [None, Origin.RUNTIME, Origin.RUNTIME])
    assert render(rows, Dialect.STRICT).messages == [
        user("a"),
        assistant(BRIDGE_LINE),
        user("n1\n\nn2"),
    ]


def test_strict_joins_a_reply_into_the_following_assistant_row() -> None:
    assert strict(user("q"), assistant("a"), assistant(None), assistant("b")) == [
        user("q"),
        assistant("a\n\nb"),
    ]
    assert strict(user("q"), assistant("let me see"), calling("x"), result("x", "1")) == [
        user("q"),
        calling("x", content="let me see"),
        result("x", "1"),
    ]


def test_strict_starts_with_a_user_message_once_tool_flow_is_ignored() -> None:
    assert strict(assistant("hi"), user("q")) == [user(OPENING_LINE), assistant("hi"), user("q")]
    flow = [calling("x"), result("x", "1")]
    assert strict(*flow, assistant("hi"), user("q")) == [
        user(OPENING_LINE),
        *flow,
        assistant("hi"),
        user("q"),
    ]
    assert strict(*flow, user("q")) == [*flow, user("q")]


def test_strict_joins_part_lists_as_part_lists() -> None:
    image = {"type": "image_url", "image_url": {"url": "https://a.b/c.png"}}
    assert strict(user("a"), user([text("b"), image]), assistant("r"), user("q"))[0] == user(
        [text("a"), text("b"), image]
    )


def test_strict_drops_a_name_that_not_all_joined_rows_carry() -> None:
    alice, bob = {**user("a"), "name": "alice"}, {**user("b"), "name": "bob"}
    assert strict(alice, bob, assistant("r"), user("q"))[0] == user("a\n\nb")
    assert strict(alice, alice, assistant("r"), user("q"))[0] == {**user("a\n\na"), "name": "alice"}
