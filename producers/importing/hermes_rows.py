"""Rows as Hermes Agent stores and exports them, as chat messages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_KEPT = (
    "reasoning",
    "reasoning_content",
    "reasoning_details",
    "codex_reasoning_items",
    "codex_message_items",
)
"""What a provider wants back as it was."""

_JSON_FIELDS = frozenset({"reasoning_details", "codex_reasoning_items", "codex_message_items"})


def chat_message(row: Mapping[str, Any]) -> dict[str, Any]:
    """The message of a row: content that is a list there comes as one, tool calls as JSON.

    What cannot be read is left as it is, for `workers.messages.check` to name.
    """
    message: dict[str, Any] = {"role": row.get("role"), "content": _content(row.get("content"))}
    calls = _decoded(row.get("tool_calls"))
    if calls:
        message["tool_calls"] = calls
    if row.get("tool_call_id"):
        message["tool_call_id"] = row["tool_call_id"]
    if row.get("tool_name") and message["role"] == "tool":
        message["name"] = row["tool_name"]
    for name in _KEPT:
        value = row.get(name)
        if value is not None and value != "":
            message[name] = _decoded(value) if name in _JSON_FIELDS else value
    if message["content"] is None and message["role"] != "assistant":
        message["content"] = ""
    return message


def at_ms(seconds: Any) -> int | None:
    """A time of theirs, in seconds since 1970, in milliseconds; None for what is none."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return None
    # What is not between 2001 and 2100 was never a time.
    return int(seconds * 1000) if 1e9 <= seconds <= 4.1e9 else None


def _content(value: Any) -> Any:
    if isinstance(value, str) and value.startswith("[{"):
        parts = _decoded(value)
        if isinstance(parts, list) and all(
            isinstance(part, dict) and isinstance(part.get("type"), str) for part in parts
        ):
            return parts
    return value


def _decoded(value: Any) -> Any:
    if not isinstance(value, str) or not value:
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value
