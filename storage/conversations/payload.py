"""The layout of a chat dict in a row, which restores it unchanged, key order included.

Text content has a column of its own, for search and for reading by eye. Everything else is in
`fields`: the message's JSON with null in the place of that text. A message of nothing but a role
and text, the most frequent, needs no `fields`.
"""

from __future__ import annotations

import json
from typing import Any

from storage.conversations.rows import Message


def split(message: Message) -> tuple[str | None, str | None]:
    """Lay out a message as (content, fields)."""
    content = message.get("content")
    if not isinstance(content, str):
        return None, _dump(dict(message))
    if list(message) == ["role", "content"]:
        return content, None
    return content, _dump({**message, "content": None})


def join(role: str | None, content: str | None, fields: str | None) -> dict[str, Any]:
    """Return the message that `split` laid out."""
    if fields is None:
        return {"role": role, "content": content}
    message: dict[str, Any] = json.loads(fields)
    if content is not None:
        message["content"] = content
    return message


def dump(message: Message) -> str:
    """Return a whole message as one text, as short forms are stored."""
    return _dump(dict(message))


def load(text: str) -> dict[str, Any]:
    """Return the message that `dump` wrote."""
    message: dict[str, Any] = json.loads(text)
    return message


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
