"""Worked examples of the anthropic dialect."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.sessions.chat import (
    anthropic,
    assistant,
    calling,
    result,
    result_part,
    system,
    text,
    user,
    with_marker,
)
from tests.support.sessions.strategies import PNG, rows_of
from workers.conversation.markers import frame
from workers.rendering import Dialect, render
from workers.rendering.calls import OPENING_LINE, unshown


def test_anthropic_sets_system_text_apart() -> None:
    rows = rows_of([system("one"), user("q"), system("two"), assistant("a"), system(" ")])
    view = render(rows, Dialect.ANTHROPIC)
    assert view.system == [text("one"), text("two")]
    assert [m["role"] for m in view.messages] == ["user", "assistant"]
    assert view.omitted == (4,)


def test_anthropic_puts_neighbours_of_one_role_into_one_message() -> None:
    rows = with_marker([user("a"), user([text("b")])], "S", [user("newest")])
    assert render(rows, Dialect.ANTHROPIC).messages == [
        user([text("a"), text("b"), text(frame("S")), text("newest")])
    ]


def test_anthropic_puts_results_first_in_the_message_behind_their_calls() -> None:
    messages = anthropic(
        user("q"),
        calling("a", "b", content="I look.", arguments='{"q": 1}'),
        user("hurry"),
        result("b", "2"),
        result("a", [text("1"), text(" ")]),
    )
    use = {"type": "tool_use", "name": "search", "input": {"q": 1}}
    assert messages[1:] == [
        assistant([text("I look."), {**use, "id": "a"}, {**use, "id": "b"}]),
        user([result_part("b", "2"), result_part("a", [text("1")]), text("hurry")]),
    ]


def test_anthropic_makes_ids_valid_and_unique_together_with_their_results() -> None:
    messages = anthropic(
        user("q"),
        calling("fn:a", "fn/a", "x" * 80),
        *(result(i, i) for i in ("fn:a", "fn/a", "x" * 80)),
        calling("x" * 64),
        result("x" * 64, "again"),
    )
    uses = [b["id"] for m in messages for b in m["content"] if b["type"] == "tool_use"]
    answers = [
        (b["tool_use_id"], b["content"])
        for m in messages
        for b in m["content"]
        if b["type"] == "tool_result"
    ]
    assert uses == ["fn_a", "fn_a_2", "x" * 64, "x" * 62 + "_2"]
    contents = ["fn:a", "fn/a", "x" * 80, "again"]
    assert answers == list(zip(uses, contents, strict=True))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{"q": "北京"}', {"q": "北京"}),
        ("", {}),
        ("[1]", {"arguments": [1]}),
        ('{"cut": "of', {"arguments": '{"cut": "of'}),
        ('{"n": NaN}', {"arguments": '{"n": NaN}'}),
        ('{"n": 1e999}', {"arguments": '{"n": 1e999}'}),
        ("[" * 100_000, {"arguments": "[" * 100_000}),
    ],
)
def test_anthropic_input_is_always_a_json_object(arguments: str, expected: Any) -> None:
    messages = anthropic(user("q"), calling("a", arguments=arguments), result("a", "1"))
    assert messages[1]["content"][0]["input"] == expected


def test_anthropic_takes_data_urls_and_web_addresses_as_images() -> None:
    urls = [
        f"data:image/jpg;base64,{PNG}",
        "https://a.b/c.png",
        "data:image/svg+xml,<svg/>",
        "ftp://a.b/c.png",
    ]
    parts = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    base64 = {"type": "base64", "media_type": "image/jpeg", "data": PNG}
    assert anthropic(user(parts))[0]["content"] == [
        {"type": "image", "source": base64},
        {"type": "image", "source": {"type": "url", "url": urls[1]}},
        text(unshown("image_url")),
        text(unshown("image_url")),
    ]


def test_anthropic_names_parts_that_it_cannot_carry() -> None:
    audio = {"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}}
    assert anthropic(user([text("listen"), audio]))[0]["content"] == [
        text("listen"),
        text(unshown("input_audio")),
    ]


def test_anthropic_passes_stored_blocks_unchanged() -> None:
    source = {"type": "base64", "media_type": "image/png", "data": PNG}
    asked = [{**text("see"), "cache_control": {"type": "ephemeral"}}]
    asked.append({"type": "image", "source": source})
    acted = [
        {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "AA"},
        text("I look."),
        {"type": "tool_use", "id": "a", "name": "search", "input": {"q": 1}},
        {"type": "thinking", "thinking": "more", "signature": "c2ln"},
        {"type": "tool_use", "id": "b", "name": "search", "input": {"q": 2}},
    ]
    answered = [{**result_part("a", [text("1")]), "is_error": True}, result_part("b", "2")]
    messages = [user(asked), assistant(acted), user([*answered, text("and?")])]
    assert anthropic(*messages) == messages


def test_anthropic_leaves_out_blank_text_and_empty_messages() -> None:
    rows = rows_of([user("q"), assistant(" "), user([text(" "), text("r")]), assistant(None)])
    view = render(rows, Dialect.ANTHROPIC)
    assert view.messages == [user([text("q"), text("r")])]
    assert view.omitted == (1, 3)


def test_anthropic_starts_with_a_user_message() -> None:
    assert anthropic(assistant("hi"), user("q"))[0] == user([text(OPENING_LINE)])
    assert anthropic(user(" ")) == [user([text(OPENING_LINE)])]
