"""The covered user messages, word for word, as a marker shows them beside its summary.

They are copied from the stored rows, not by a model, so they do not erode from one summary to the
next.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from storage.conversations.rows import Message, Row
from workers.conversation.tokens import estimate_text
from workers.summariser.passages import passage

MESSAGE_CHARS = 500
"""Longest quotation of one message: its first 350 characters and its last 150."""

HEADING = (
    "## User messages of the part summarised above, word for word, newest first: history, dealt "
    "with or superseded since, not the request to act on"
)
CUT_NOTE = "⟦cut: the whole message can be searched⟧"

_FIRST, _LAST = 350, 150
_QUOTE = ">"


def verbatim_section(rows: Iterable[Row], *, budget_tokens: int) -> str:
    """Quote the user messages of `rows`, newest first, in at most `budget_tokens` tokens.

    Each message is redacted, cut to 500 characters with a visible note, and written in quoted
    lines of its own under one heading, so nothing in it can pass for another section or for the
    frame of the marker. Rows that open no turn (of the agent, of tools, of the runtime) are
    skipped. Reading stops at the first message that does not fit; the result is "" when not even
    the newest fits. Raises `ValueError` for a user message that was read without its text.
    """
    section = ""
    for row in rows:
        if budget_tokens <= 0:
            break
        if not row.opens_turn or not (text := user_text(row)):
            continue
        longer = f"{section or HEADING}\n\n{_quoted(_cut(text))}"
        if estimate_text(longer) > budget_tokens:
            break
        section = longer
    return section


def _cut(text: str) -> str:
    if len(text) <= MESSAGE_CHARS:
        return text
    return f"{text[:_FIRST]}\n{CUT_NOTE}\n{text[-_LAST:]}"


def _quoted(text: str) -> str:
    return "\n".join(f"{_QUOTE} {line}" if line else _QUOTE for line in text.splitlines())


_RESULT_PARTS = frozenset({"tool_result", "function_call_output"})


def user_text(row: Row) -> str:
    """Return the text of a user message, redacted.

    A very long one is cut to its first 4,000 characters and its last 1,500 with a note between.
    Image parts become a note. Tool results in the same row were not written by the person and are
    left out. Raises `ValueError` for a row without its message.
    """
    if row.message is not None:
        row = replace(row, message=_without_results(row.message))
    return passage(row).text.strip()


def _without_results(message: Message) -> Message:
    content = message.get("content")
    if not isinstance(content, list | tuple):
        return message
    return {**message, "content": [part for part in content if not _is_result(part)]}


def _is_result(part: object) -> bool:
    return isinstance(part, Mapping) and part.get("type") in _RESULT_PARTS
