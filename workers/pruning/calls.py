"""What a tool call says: its name and its arguments, whatever the shape of its row."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from storage.rows import Message

TOOL_USE = "tool_use"


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call. `given` are its arguments as they stand in the row: text, or an object."""

    id: str
    name: str
    given: Any

    @property
    def arguments(self) -> Mapping[str, Any]:
        """The arguments by name; none where they are no JSON object."""
        value = self.given
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except (ValueError, RecursionError):
                return {}
        return value if isinstance(value, Mapping) else {}

    @property
    def text(self) -> str:
        """The arguments as one text."""
        if isinstance(self.given, str):
            return self.given
        return json.dumps(self.given, ensure_ascii=False, default=str)


def calls_of(message: Message) -> tuple[Call, ...]:
    """The calls that a message makes, listed ones first, then those in its parts."""
    found = []
    for call in message.get("tool_calls") or ():
        made = call.get("function") or call.get("custom") or {}
        given = made.get("arguments", made.get("input", ""))
        found.append(Call(str(call.get("id", "")), str(made.get("name", "")), given))
    listed = {call.id for call in found}
    content = message.get("content")
    for part in content if isinstance(content, list) else ():
        if part.get("type") == TOOL_USE and part.get("id") not in listed:
            name, given = str(part.get("name", "")), part.get("input", "")
            found.append(Call(str(part.get("id", "")), name, given))
    return tuple(found)
