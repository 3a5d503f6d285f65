"""What of a stored row can be found: what was said, and what was called with what."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from storage.payload import join

RECALL_TOOL = "session_search"
"""Name of the agent tool over this search. What it gave back is not indexed: it is text that is
stored already, and would be found again and again (F241)."""

PART = 4_000
"""Characters of a document at most; a longer message is several, of which any may be found."""

OVERLAP = 200
"""Characters that a document shares with the one before, so that a phrase lies whole in one."""

MOST_PARTS = 1 << 8
"""Documents of one message: a million characters. What lies behind is found by scrolling alone."""


def searchable(role: str | None, content: str | None, fields: str | None) -> str:
    """The text of a message as it is searched, from its row."""
    if fields is None:
        return content or ""
    message = join(role, content, fields)
    if role == "tool" and message.get("name") == RECALL_TOOL:
        return ""
    return "\n".join(text for text in (*_strings(message.get("content")), *_calls(message)) if text)


def parts(text: str) -> list[tuple[int, int]]:
    """Where the documents of a text begin and end, in characters."""
    found: list[tuple[int, int]] = []
    start = 0
    while len(found) < MOST_PARTS:
        end = len(text) if len(text) - start <= PART else _gap(text, start + PART)
        found.append((start, end))
        if end == len(text):
            break
        start = _gap(text, end - OVERLAP // 2)
    return found


def _gap(text: str, at: int) -> int:
    """The last place before `at` where no word is cut; `at` itself where there is none near."""
    for place in range(at, at - OVERLAP // 2, -1):
        if text[place - 1].isspace():
            return place
    return at


def _strings(content: Any) -> Iterator[str]:
    """Text in whatever shape content has (F234); images and the like have none."""
    match content:
        case str():
            yield content
        case list():
            for part in content:
                yield from _strings(part)
        case dict():
            yield from _strings(content.get("text"))
            yield from _strings(content.get("content"))


def _calls(message: dict[str, Any]) -> Iterator[str]:
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            yield from _strings(function.get("name"))
            yield from _arguments(function.get("arguments"))


def _arguments(arguments: Any) -> Iterator[str]:
    """Names and values: in their JSON a word may be written in escapes."""
    if not isinstance(arguments, str):
        yield from _leaves(arguments)
        return
    try:
        yield from _leaves(json.loads(arguments))
    except (ValueError, RecursionError):
        yield arguments


def _leaves(value: Any) -> Iterator[str]:
    match value:
        case dict():
            for name, inner in value.items():
                yield str(name)
                yield from _leaves(inner)
        case list():
            for inner in value:
                yield from _leaves(inner)
        case None:
            return
        case _:
            yield str(value)
