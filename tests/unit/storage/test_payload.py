"""Every chat dict comes back byte for byte from the two columns that hold it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from storage.conversations.payload import join, split
from tests.support.sessions.payloads import chat_dicts, written
from tests.tiers import examples


@given(chat_dicts())
@examples(60)
def test_a_message_comes_back_byte_for_byte_and_is_left_alone(message: dict[str, Any]) -> None:
    before = written(message)
    assert written(join(message["role"], *split(message))) == before
    assert written(message) == before


@given(chat_dicts())
@examples(60)
def test_text_content_stands_in_its_own_column_and_nowhere_else(message: dict[str, Any]) -> None:
    content, fields = split(message)
    if isinstance(message.get("content"), str):
        assert content == message["content"]
        assert fields is None or json.loads(fields)["content"] is None
    else:
        assert content is None


def test_a_role_and_text_need_one_column() -> None:
    assert split({"role": "user", "content": "hello"}) == ("hello", None)


@pytest.mark.parametrize(
    "message",
    [
        {"content": "the order of keys", "role": "user"},
        {"role": "assistant", "content": None},
        {"role": "assistant"},
        {"role": "assistant", "content": ""},
        {"role": "assistant", "content": []},
        {"role": "assistant", "tool_calls": [], "content": None, "refusal": None},
        {"role": "user", "content": "x", "seed": 12345678901234567890123, "f": 1e-7, "g": 1.0},
    ],
)
def test_what_is_easily_lost_is_kept(message: dict[str, Any]) -> None:
    assert written(join(message["role"], *split(message))) == written(message)
