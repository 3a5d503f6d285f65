"""The checkers refuse what providers refuse; otherwise the properties would prove nothing."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.model.validity import check_anthropic, check_openai, check_strict

CALL = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
CALLING = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "a", "content": "1"}
USER = {"role": "user", "content": "q"}
REPLY = {"role": "assistant", "content": "r"}
SYSTEM = {"role": "system", "content": "s"}

TEXT = {"type": "text", "text": "t"}
USE = {"type": "tool_use", "id": "a", "name": "f", "input": {}}
ANSWER = {"type": "tool_result", "tool_use_id": "a"}


def says(role: str, *blocks: Any) -> dict[str, Any]:
    return {"role": role, "content": list(blocks)}


def test_good_views_pass() -> None:
    chat: list[Any] = [SYSTEM, USER, CALLING, RESULT, REPLY, USER]
    check_openai(chat)
    check_strict(chat)
    check_anthropic([TEXT], [says("user", TEXT), says("assistant", USE), says("user", ANSWER)])


@pytest.mark.parametrize(
    ("reason", "messages"),
    [
        ("no messages", []),
        ("unknown role", [USER, {"role": "robot", "content": "x"}]),
        ("no user message", [SYSTEM, REPLY]),
        ("no preceding call", [RESULT, USER]),
        ("no preceding call", [USER, CALLING, RESULT, RESULT]),
        ("still have no result", [USER, CALLING, USER, RESULT]),
        ("have no result", [USER, CALLING]),
        ("no content", [USER, {"role": "assistant", "content": None}]),
        ("empty list", [{"role": "user", "content": []}]),
        ("empty tool_calls", [USER, {**REPLY, "tool_calls": []}]),
        ("'tool_result' in user", [USER, CALLING, RESULT, says("user", ANSWER)]),
    ],
)
def test_openai_refuses(reason: str, messages: list[Any]) -> None:
    with pytest.raises(AssertionError, match=reason):
        check_openai(messages)


@pytest.mark.parametrize(
    ("reason", "messages"),
    [
        ("user where assistant is due", [USER, USER]),
        ("user where assistant is due", [USER, CALLING, RESULT, USER]),
        ("assistant where user is due", [REPLY, USER]),
        ("system message not first", [USER, SYSTEM]),
        ("system message not first", [SYSTEM, SYSTEM, USER]),
        ("two assistant rows touch", [USER, REPLY, CALLING, RESULT]),
    ],
)
def test_strict_refuses(reason: str, messages: list[Any]) -> None:
    check_openai(messages)
    with pytest.raises(AssertionError, match=reason):
        check_strict(messages)


@pytest.mark.parametrize(
    ("reason", "messages"),
    [
        ("no messages", []),
        ("assistant where user is due", [says("assistant", TEXT)]),
        ("user where assistant is due", [says("user", TEXT), says("user", TEXT)]),
        ("content is no list", [USER]),
        ("empty content", [says("user")]),
        ("blank text", [says("user", {"type": "text", "text": " "})]),
        ("extra or missing", [{**says("user", TEXT), "name": "alice"}]),
        ("'thinking'", [says("user", {"type": "thinking"})]),
        ("a result leads", [says("user", ANSWER)]),
        ("differ", [says("user", TEXT), says("assistant", USE)]),
        ("differ", [says("user", TEXT), says("assistant", TEXT), says("user", ANSWER)]),
        ("not first", [says("user", TEXT), says("assistant", USE), says("user", TEXT, ANSWER)]),
        ("used twice", [says("user", TEXT), says("assistant", USE, USE), says("user", ANSWER)]),
        ("used before", [says("user", TEXT), *[says("assistant", USE), says("user", ANSWER)] * 2]),
        ("id 'a:b'", [says("user", TEXT), says("assistant", {**USE, "id": "a:b"})]),
        ("no object", [says("user", TEXT), says("assistant", {**USE, "input": "{}"})]),
    ],
)
def test_anthropic_refuses(reason: str, messages: list[Any]) -> None:
    with pytest.raises(AssertionError, match=reason):
        check_anthropic([], messages)
