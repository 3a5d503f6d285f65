"""Worked examples of the repair that every dialect gets, and of the openai dialect."""

from __future__ import annotations

import json

import pytest

from storage.conversations.rows import Kind, Row
from tests.support.model.validity import check_view
from tests.support.sessions.chat import (
    anthropic,
    assistant,
    calling,
    openai,
    result,
    result_part,
    system,
    text,
    user,
    with_marker,
)
from tests.support.sessions.strategies import PNG, rows_of
from workers.conversation.markers import frame
from workers.rendering import Dialect, RenderingError, render
from workers.rendering.calls import OPENING_LINE, STUB_RESULT, unshown


def test_unaffected_rows_come_out_byte_for_byte() -> None:
    messages = [
        {"content": "rules", "role": "system", "cache_control": {"type": "ephemeral"}},
        user([text("see"), {"type": "image_url", "image_url": {"url": "https://a.b/c.png"}}]),
        {**calling("a", "b", content=""), "reasoning_content": "hm\ud800", "x": {"y": [None, 1.5]}},
        {**result("b", "2"), "name": "search"},
        result("a", [text("1")]),
        assistant("done\x00 ", refusal=None, annotations=[]),
        {"role": "developer", "content": "later rule"},
        user(""),
    ]
    assert json.dumps(openai(*messages)) == json.dumps(messages)


def test_a_marker_is_a_user_message_of_its_own_in_its_frame() -> None:
    rows = with_marker([user("q"), assistant("a")], "## Goal\nFly", [user("next")])
    messages = render(rows, Dialect.OPENAI).messages
    assert messages[2] == user(frame("## Goal\nFly"))
    assert messages[3] == user("next")


def test_a_late_result_moves_up_to_its_call() -> None:
    assert openai(user("q"), calling("a"), user("hurry"), result("a", "1")) == [
        user("q"),
        calling("a"),
        result("a", "1"),
        user("hurry"),
    ]


def test_an_unanswered_call_gets_a_constant_result_and_is_reported() -> None:
    rows = rows_of([user("q"), calling("a", "b"), result("b", "2"), user("well?")])
    view = render(rows, Dialect.OPENAI)
    assert view.messages[2:4] == [result("b", "2"), result("a", STUB_RESULT)]
    assert view.stubbed == (1,)
    assert view.omitted == ()


def test_the_newest_result_of_a_call_is_shown_and_the_older_one_reported() -> None:
    rows = rows_of([user("q"), calling("a"), result("a", "denied"), result("a", "real")])
    view = render(rows, Dialect.OPENAI)
    assert view.messages == [user("q"), calling("a"), result("a", "real")]
    assert view.omitted == (2,)


def test_an_orphan_result_is_omitted_and_reported() -> None:
    rows = rows_of([result("lost", "0"), user("q"), assistant("a"), result("lost", "1")])
    view = render(rows, Dialect.OPENAI)
    assert view.messages == [user("q"), assistant("a")]
    assert view.omitted == (0, 3)


def test_a_reused_id_pairs_by_position() -> None:
    messages = [
        user("q"),
        calling("a"),
        result("a", "first"),
        calling("a"),
        result("a", "second"),
    ]
    assert openai(*messages) == messages


def test_one_id_for_two_parallel_calls_keeps_both_results() -> None:
    messages = [user("q"), calling("a", "a"), result("a", "1"), result("a", "2")]
    assert openai(*messages) == messages
    blocks = anthropic(*messages)[2]["content"]
    assert [(b["tool_use_id"], b["content"]) for b in blocks] == [("a", "1"), ("a_2", "2")]


def test_a_view_without_user_message_gets_one_behind_its_system_rows() -> None:
    assert openai(system("s"), assistant("hello")) == [
        system("s"),
        user(OPENING_LINE),
        assistant("hello"),
    ]
    assert openai() == [user(OPENING_LINE)]


def test_a_result_in_user_clothing_becomes_a_tool_row_for_chat_servers() -> None:
    dressed = user([result_part("a", [text("one"), text("two")])])
    assert openai(user("q"), calling("a"), dressed) == [
        user("q"),
        calling("a"),
        result("a", "one\ntwo"),
    ]


@pytest.mark.parametrize("dialect", list(Dialect))
def test_words_of_a_person_beside_a_result_stay_when_the_result_moves(dialect: Dialect) -> None:
    mixed = user([result_part("a", "42"), text("and now the return flight")])
    rows = rows_of([user("q"), calling("a"), assistant("wait"), mixed])
    assert rows[-1].opens_turn
    view = render(rows, dialect)
    check_view(view, dialect)
    last = view.messages[-1]
    assert last["role"] == "user"
    assert last["content"] == [text("and now the return flight")]
    assert view.omitted == ()
    assert "42" in json.dumps(view.messages[2])


def test_an_orphan_result_beside_words_leaves_the_words() -> None:
    rows = rows_of([user([result_part("lost", "42"), text("go on")])])
    view = render(rows, Dialect.OPENAI)
    assert view.messages == [user([text("go on")])]
    assert view.omitted == (0,)


def test_responses_style_results_pair_too() -> None:
    part = {"type": "function_call_output", "call_id": "a", "output": "42"}
    messages = [user("q"), calling("a"), user([part])]
    assert openai(*messages)[2] == result("a", "42")
    assert anthropic(*messages)[2]["content"] == [result_part("a", "42")]


def test_anthropic_shaped_rows_are_rewritten_for_chat_servers() -> None:
    image = {"type": "base64", "media_type": "image/png", "data": PNG}
    thought = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    use = {"type": "tool_use", "id": "a", "name": "search", "input": {"q": "北京"}}
    url = {"url": f"data:image/png;base64,{PNG}"}
    messages = openai(
        user([text("see"), {"type": "image", "source": image}]),
        assistant([thought, text("I look."), use]),
        user([result_part("a", None)]),
    )
    assert messages[0] == user([text("see"), {"type": "image_url", "image_url": url}])
    assert messages[1] == calling("a", content=[text("I look.")], arguments='{"q": "北京"}')
    assert messages[2] == result("a", "")


def test_a_tool_row_may_hold_its_result_as_a_part_of_the_other_shape() -> None:
    image = {"type": "image", "source": {"type": "url", "url": "https://a.b/c.png"}}
    part = result_part("a", ["one", image])
    messages = [user("q"), calling("a"), result("a", [part])]
    assert openai(*messages)[2] == result("a", f"one\n{unshown('image')}")
    assert anthropic(*messages)[2]["content"] == [result_part("a", [text("one"), image])]


def test_calls_of_both_shapes_in_one_row_keep_their_results_apart() -> None:
    use = {"type": "tool_use", "id": "b", "name": "search", "input": {"q": 2}}
    messages = [
        user("q"),
        calling("a", content=[use]),
        user([result_part("b", "2"), result_part("a", "1")]),
    ]
    chat = openai(*messages)
    assert [call["id"] for call in chat[1]["tool_calls"]] == ["a", "b"]
    assert chat[2:] == [result("b", "2"), result("a", "1")]
    blocks = anthropic(*messages)
    assert [(b["id"], b["input"]) for b in blocks[1]["content"]] == [("b", {"q": 2}), ("a", {})]
    assert blocks[2]["content"] == [result_part("b", "2"), result_part("a", "1")]


def test_a_call_that_is_stored_in_both_shapes_is_one_call() -> None:
    use = {"type": "tool_use", "id": "a", "name": "search", "input": {}}
    messages = [user("q"), calling("a", content=[text("t"), use]), result("a", "1")]
    assert openai(*messages)[1:] == [calling("a", content=[text("t")]), result("a", "1")]
    blocks = anthropic(*messages)[1]["content"]
    assert [block["type"] for block in blocks] == ["text", "tool_use"]


def test_a_reply_that_says_nothing_gets_empty_text_for_chat_servers() -> None:
    assert openai(user("q"), assistant(None)) == [user("q"), assistant("")]
    assert openai(user("q"), {"role": "assistant"}) == [user("q"), assistant("")]
    assert openai(user("q"), assistant("a", tool_calls=[])) == [user("q"), assistant("a")]


def test_a_reply_of_signed_thinking_alone_is_left_out_of_a_chat_and_reported() -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    rows = rows_of([user("q"), assistant([thought])])
    assert render(rows, Dialect.OPENAI).messages == [user("q")]
    assert render(rows, Dialect.OPENAI).omitted == (1,)
    assert render(rows, Dialect.STRICT).omitted == (1,)
    assert render(rows, Dialect.ANTHROPIC).messages[1]["content"] == [thought]


@pytest.mark.parametrize("kind", [Kind.MESSAGE, Kind.MICRO])
def test_a_row_without_its_text_is_an_error_that_names_the_position(kind: Kind) -> None:
    with pytest.raises(RenderingError, match="position 7") as caught:
        render([Row(7, 10, kind=kind, role="user")], Dialect.OPENAI)
    assert caught.value.position == 7
