"""Short names for the chat dicts that worked examples are made of, and their renderings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from storage.conversations.rows import Kind, Row
from tests.support.sessions.strategies import ChatDict, marker_row, rows_of
from workers.rendering import Dialect, render


def system(text: str) -> ChatDict:
    return {"role": "system", "content": text}


def user(content: Any) -> ChatDict:
    return {"role": "user", "content": content}


def assistant(content: Any, **more: Any) -> ChatDict:
    return {"role": "assistant", "content": content, **more}


def calling(*ids: str, content: Any = None, arguments: str = "{}") -> ChatDict:
    function = {"name": "search", "arguments": arguments}
    calls = [{"id": i, "type": "function", "function": function} for i in ids]
    return assistant(content, tool_calls=calls)


def result(identifier: str, content: Any) -> ChatDict:
    return {"role": "tool", "tool_call_id": identifier, "content": content}


def result_part(identifier: str, content: Any) -> ChatDict:
    return {"type": "tool_result", "tool_use_id": identifier, "content": content}


def text(words: str) -> ChatDict:
    return {"type": "text", "text": words}


def openai(*messages: ChatDict) -> list[dict[str, Any]]:
    return render(rows_of(messages), Dialect.OPENAI).messages


def strict(*messages: ChatDict) -> list[dict[str, Any]]:
    return render(rows_of(messages), Dialect.STRICT).messages


def anthropic(*messages: ChatDict) -> list[dict[str, Any]]:
    return render(rows_of(messages), Dialect.ANTHROPIC).messages


def with_marker(before: Sequence[ChatDict], summary: str, after: Sequence[ChatDict]) -> list[Row]:
    rows = rows_of([*before, assistant("absorbed"), *after])
    place = len(before)
    return [*rows[:place], marker_row(Kind.BATCH, place, summary), *rows[place + 1 :]]
