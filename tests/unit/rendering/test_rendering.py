"""Rendering of the live view: what every dialect accepts, and real sessions."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given

from storage.conversations.rows import Row
from tests.support.model.validity import check_view
from tests.support.sessions.conversations import SESSION_FILES, real_sessions
from tests.support.sessions.strategies import ChatDict, rows_of, views
from tests.tiers import examples, sampled
from workers.conversation.markers import frame
from workers.rendering import Dialect, RenderedView, render
from workers.rendering.calls import STUB_RESULT


def user_texts(messages: Sequence[dict[str, Any]]) -> list[str]:
    """Return every text that user messages show, part by part."""
    contents = [m["content"] for m in messages if m["role"] == "user"]
    return [
        piece
        for content in contents
        for piece in ([content] if isinstance(content, str) else _texts(content))
    ]


def _texts(parts: Sequence[dict[str, Any]]) -> list[str]:
    return [part["text"] for part in parts if part["type"] == "text"]


def newest_request(rows: Sequence[Row]) -> ChatDict | None:
    """Return the newest real user message as it must be shown: without the results that it
    holds."""
    newest = next((row.message for row in reversed(rows) if row.opens_turn), None)
    if newest is None or isinstance(newest["content"], str):
        return dict(newest) if newest else None
    kept = [part for part in newest["content"] if part["type"] != "tool_result"]
    return {**newest, "content": kept}


def assert_newest_request_word_for_word(
    rows: Sequence[Row], view: RenderedView, dialect: Dialect
) -> None:
    newest = newest_request(rows)
    if newest is None:
        return
    if dialect is not Dialect.ANTHROPIC:
        assert newest in view.messages
        return
    content = newest["content"]
    words = [content] if isinstance(content, str) else _texts(content)
    shown = [_texts(m["content"]) for m in view.messages if m["role"] == "user"]
    wanted = [word for word in words if word.strip()]
    assert any(all(word in texts for word in wanted) for texts in shown)


def assert_each_marker_once(rows: Sequence[Row], view: RenderedView) -> None:
    said_by_user = user_texts(view.messages)
    everything = json.dumps([view.system, view.messages])
    for row in rows:
        if row.kind.is_marker:
            framed = frame(row.summary or "")
            assert sum(shown.count(framed) for shown in said_by_user) == 1
            assert everything.count(json.dumps(framed)[1:-1]) == 1


def count_calls(messages: Sequence[Any]) -> int:
    listed = sum(len(m.get("tool_calls") or ()) for m in messages)
    parts = [p for m in messages if isinstance(m.get("content"), list) for p in m["content"]]
    return listed + len([part for part in parts if part["type"] == "tool_use"])


@pytest.mark.parametrize("dialect", list(Dialect))
def test_any_view_is_one_that_the_provider_takes(dialect: Dialect) -> None:
    @given(views())
    @examples(100, any_health=True)
    def holds(rows: list[Row]) -> None:
        before = copy.deepcopy(rows)
        view = render(rows, dialect)
        check_view(view, dialect)
        assert_newest_request_word_for_word(rows, view, dialect)
        assert_each_marker_once(rows, view)
        stored = [row.message for row in rows if row.message is not None]
        assert count_calls(view.messages) == count_calls(stored)
        assert json.dumps(rows, default=repr) == json.dumps(before, default=repr)
        assert rows == before
        assert render(before, dialect) == view

    holds()


@given(views())
@examples(100, any_health=True)
def test_openai_shows_chat_rows_in_order_and_as_stored(rows: list[Row]) -> None:
    """Apart from results, which may move or go, and rows that chat servers do not take."""
    view = render(rows, Dialect.OPENAI)
    plain = [
        json.dumps(row.message)
        for row in rows
        if row.message is not None
        and row.role != "tool"
        and row.message["content"] is not None
        and not (isinstance(row.message["content"], list) and _is_foreign(row.message["content"]))
    ]
    shown = iter([json.dumps(message) for message in view.messages])
    assert all(message in shown for message in plain)


def _is_foreign(parts: Sequence[dict[str, Any]]) -> bool:
    return any(part["type"] in ("tool_use", "tool_result", "thinking") for part in parts)


@pytest.mark.parametrize("name", SESSION_FILES)
@pytest.mark.parametrize("dialect", list(Dialect))
def test_real_sessions_render_to_views_that_providers_take(name: str, dialect: Dialect) -> None:
    sessions = 0
    for _, messages in sampled(real_sessions(name), every=5):
        rows = rows_of(messages)
        view = render(rows, dialect)
        check_view(view, dialect)
        assert_newest_request_word_for_word(rows, view, dialect)
        assert view.omitted == () or dialect is Dialect.ANTHROPIC
        sessions += 1
    assert sessions


@pytest.mark.parametrize("name", SESSION_FILES)
def test_real_sessions_come_back_byte_for_byte(name: str) -> None:
    for _, messages in real_sessions(name):
        view = render(rows_of(messages), Dialect.OPENAI)
        kept = [m for m in view.messages if m.get("content") != STUB_RESULT]
        assert json.dumps(kept) == json.dumps(messages)
