"""A conversation on a terminal: one block per message."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from textwrap import indent
from typing import Any

from rich.text import Text

from afterturn.console import plain
from workers.marker import is_marker_text

_STYLES = {
    "system": "magenta",
    "developer": "magenta",
    "user": "bold green",
    "assistant": "bold cyan",
    "tool": "yellow",
}


def blocks(messages: list[dict[str, Any]]) -> Iterator[Text]:
    """Give what to print for messages of any dialect, in their order."""
    for number, message in enumerate(messages, start=1):
        role = str(message.get("role", "?"))
        name = message.get("name")
        heading = f"{number} {role}" + (f" {name}" if name else "")
        texts = list(_texts(message))
        if any(map(is_marker_text, texts)):
            yield Text(plain(f"{heading}, summary of earlier messages"), style="bold blue")
        else:
            yield Text(plain(heading), style=_STYLES.get(role, ""))
        for text in texts:
            yield Text(indent(plain(text), "  "))
        yield Text("")


def _texts(message: Mapping[str, Any]) -> Iterator[str]:
    content = message.get("content")
    if isinstance(content, str):
        if content:
            yield content
    else:
        for part in content or ():
            yield _part(part)
    for call in message.get("tool_calls") or ():
        function = call.get("function") or {}
        yield f"calls {function.get('name', '?')}({function.get('arguments', '')})"


def _part(part: Mapping[str, Any]) -> str:
    match part.get("type"):
        case "text" | "input_text" | "output_text":
            return str(part.get("text", ""))
        case "tool_use":
            return f"calls {part.get('name')}({json.dumps(part.get('input'), ensure_ascii=False)})"
        case "tool_result":
            content = part.get("content")
            text = content if isinstance(content, str) else "\n".join(map(_part, content or ()))
            return f"result: {text}"
        case other:
            return f"[{other}]"
