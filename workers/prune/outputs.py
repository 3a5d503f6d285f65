"""Read the tool outputs and calls of a message, and replace them by notes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from storage.conversations.rows import Message, Row

_RESULT_PARTS = frozenset({"tool_result", "function_call_output"})
_TEXT_PARTS = frozenset({"text", "input_text", "output_text"})

WHOLE_ROW = -1


@dataclass(frozen=True, slots=True)
class Output:
    """The output of one call. `part` is its index among the parts of its row, `WHOLE_ROW` if it is
    the whole row; `answers` is the id of the call. An output with parts of its own has several
    `texts`."""

    part: int
    answers: str
    texts: tuple[str, ...]
    images: int
    is_error: bool

    @property
    def text(self) -> str:
        """The whole output as one text."""
        return self.texts[0] if len(self.texts) == 1 else "\n".join(self.texts)


def outputs_of(row: Row) -> tuple[Output, ...]:
    """Return the outputs in a row. A row that a person wrote has none that may be changed."""
    if row.message is None or row.opens_turn or not row.answers:
        return ()
    found = tuple(_parts(row.message.get("content")))
    if found or row.role != "tool":
        return found
    content = row.message.get("content")
    texts, images = _read(content)
    return (Output(WHOLE_ROW, row.answers[0], texts, images, _is_error(row.message)),)


def replaced(message: Message, notes: Mapping[int, str], images: Mapping[int, str]) -> Message:
    """Return a message with `notes` in place of outputs and `images` in place of images alone, each
    by the index of its part."""
    content = message.get("content")
    if WHOLE_ROW in notes or WHOLE_ROW in images:
        changed = _replaced_content(content, notes.get(WHOLE_ROW), images.get(WHOLE_ROW))
        return {**message, "content": changed}
    if not isinstance(content, list):
        return message
    parts = [
        _replaced_part(part, notes.get(index), images.get(index))
        for index, part in enumerate(content)
    ]
    return {**message, "content": parts}


def _parts(content: Any) -> Iterator[Output]:
    for index, part in enumerate(content if isinstance(content, list) else ()):
        if part.get("type") in _RESULT_PARTS:
            texts, images = _read(part.get(_body(part)))
            answers = part.get("tool_use_id") or part.get("call_id") or ""
            yield Output(index, str(answers), texts, images, _is_error(part))


def _body(part: Mapping[str, Any]) -> str:
    return "content" if "content" in part else "output"


def _is_error(fields: Mapping[str, Any]) -> bool:
    return fields.get("is_error") is True or fields.get("status") == "error"


def _read(content: Any) -> tuple[tuple[str, ...], int]:
    if isinstance(content, str):
        return (content,), 0
    if not isinstance(content, list):
        return (), 0
    texts = tuple(part["text"] for part in content if _is_text(part))
    return texts, sum(map(_is_image, content))


def _is_text(part: Any) -> bool:
    return (
        isinstance(part, Mapping)
        and part.get("type") in _TEXT_PARTS
        and isinstance(part.get("text"), str)
    )


def _is_image(part: Any) -> bool:
    return isinstance(part, Mapping) and (
        "image" in str(part.get("type", "")) or "image_url" in part
    )


def _replaced_part(part: Any, note: str | None, images: str | None) -> Any:
    if note is None and images is None:
        return part
    body = _body(part)
    return {**part, body: _replaced_content(part.get(body), note, images)}


def _replaced_content(content: Any, note: str | None, images: str | None) -> Any:
    """Return the content with `note` in place of text and images, or `images` in place of images
    alone."""
    if not isinstance(content, list):
        return note if note is not None else content
    text = note if note is not None else images
    gone = [_is_image(part) or (note is not None and _is_text(part)) for part in content]
    kind = next((part["type"] for part in content if _is_text(part)), "text")
    kept: list[Any] = []
    for index, part in enumerate(content):
        if index == gone.index(True):
            kept.append({"type": kind, "text": text})
        elif not gone[index]:
            kept.append(part)
    return kept


TOOL_USE = "tool_use"


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call. `given` are its arguments as stored in the row: text, or an object."""

    id: str
    name: str
    given: Any

    @property
    def arguments(self) -> Mapping[str, Any]:
        """The arguments by name; empty if they are not a JSON object."""
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
    """Return the calls of a message: those in its list first, then those in its parts."""
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
