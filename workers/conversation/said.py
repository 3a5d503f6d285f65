"""What a person wrote in a user message."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from storage.rows import Message, Row
from workers.summariser.passages import passage

_RESULT_PARTS = frozenset({"tool_result", "function_call_output"})


def said(row: Row) -> str:
    """Give the words of a user message, redacted, of a very long one the first 4,000 characters
    and the last 1,500 with a note between.

    Image parts become a note. Results of tools that share the row were not written by the person
    (faults F074, F075) and are left out. Raises `ValueError` for a row without its message.
    """
    if row.message is not None:
        row = replace(row, message=_own(row.message))
    return passage(row).text.strip()


def _own(message: Message) -> Message:
    content = message.get("content")
    if not isinstance(content, list | tuple):
        return message
    return {**message, "content": [part for part in content if not _is_result(part)]}


def _is_result(part: object) -> bool:
    return isinstance(part, Mapping) and part.get("type") in _RESULT_PARTS
