"""Tool calls and their results, read from messages of either shape.

A call is an entry of `tool_calls` or a `tool_use` content part; a result is a tool message or a
`tool_result` content part, also inside a user message.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from storage.conversations.rows import Message

Part: TypeAlias = Mapping[str, Any]

_UNNAMED = "unknown"


@dataclass(frozen=True, slots=True)
class StoredCall:
    """A stored tool call. `arguments` are as they were stored, JSON text or a value."""

    id: str
    name: str
    arguments: Any


def parts_of(message: Message) -> list[Part]:
    """Return the content parts of `message`; none when its content is text."""
    content = message.get("content")
    return content if isinstance(content, list) else []


def calls_of(message: Message) -> tuple[StoredCall, ...]:
    """Return the calls that an assistant message makes: `tool_calls` first, then `tool_use` parts.

    A part that repeats an entry of `tool_calls` (some gateways keep both shapes) is no second
    call. Messages of other roles make none.
    """
    if message["role"] != "assistant":
        return ()
    listed = tuple(_listed(call) for call in message.get("tool_calls") or ())
    known = {call.id for call in listed}
    return listed + tuple(
        StoredCall(part["id"], part.get("name") or _UNNAMED, part.get("input"))
        for part in parts_of(message)
        if is_call_part(part) and part["id"] not in known
    )


def _listed(call: Mapping[str, Any]) -> StoredCall:
    function = call.get("function")
    if function is not None:
        return StoredCall(call["id"], function.get("name") or _UNNAMED, function.get("arguments"))
    custom = call.get("custom") or {}
    return StoredCall(call["id"], custom.get("name") or _UNNAMED, custom.get("input"))


def is_call_part(part: Part) -> bool:
    return part.get("type") == "tool_use" and bool(_text(part, "id"))


def answered_id(part: Part) -> str | None:
    """Return the id of the call that a content part answers, None for every other part."""
    if part.get("type") not in ("tool_result", "function_call_output"):
        return None
    return _text(part, "tool_use_id") or _text(part, "call_id")


def answer_content(part: Part) -> Any:
    """Return the content of a result part: text, a list of parts, or None."""
    return part.get("content", part.get("output"))


def as_parts(content: Any) -> list[Part]:
    """Return any content as parts.

    Text becomes one part, missing content none, and other values become JSON text.
    """
    if content is None:
        return []
    if isinstance(content, list):
        return [part for item in content for part in _as_part(item)]
    return _as_part(content)


def _as_part(item: Any) -> list[Part]:
    if isinstance(item, Mapping) and "type" in item:
        return [item]
    text = item if isinstance(item, str) else json.dumps(item, ensure_ascii=False)
    return [{"type": "text", "text": text}]


def _text(mapping: Part, key: str) -> str | None:
    value = mapping.get(key)
    return value if isinstance(value, str) and value else None


_INVALID = re.compile(r"[^A-Za-z0-9_-]")
_MAX_LENGTH = 64


class ToolIds:
    """The call ids of one view, made valid and unique. A valid id that is new stays as it is.

    An id depends only on the calls before it, so a view that grows at its end keeps its bytes.
    """

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._times: dict[str, int] = {}

    def claim(self, stored: str) -> str:
        """Return the id to show for the next call, whose stored id is `stored`."""
        base = _INVALID.sub("_", stored)[:_MAX_LENGTH] or "call"
        shown = base
        while shown in self._taken:
            self._times[base] = self._times.get(base, 1) + 1
            suffix = f"_{self._times[base]}"
            shown = base[: _MAX_LENGTH - len(suffix)] + suffix
        self._taken.add(shown)
        return shown


STUB_RESULT = "[No result of this call is on record. It may or may not have taken effect.]"
"""The result shown for a call that was never answered. It claims neither success nor failure, since
the action may have happened."""

OPENING_LINE = "(The conversation continues below.)"
"""A user message for a view that has none, or that must start with one and does not."""

BRIDGE_LINE = "Noted."
"""An assistant message between two user-role messages that must neither touch nor be joined. It
is short and without content, so a model that copies it does no harm."""

_UNSHOWN = "[A part of type {} is not shown here.]"


def unshown(part_type: str) -> str:
    """Return the note shown instead of a content part that the dialect cannot carry."""
    return _UNSHOWN.format(part_type[:40])
