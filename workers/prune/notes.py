"""Notes that replace tool output, arguments or images in the live view.

A note is one line in brackets that conversations do not otherwise use. It says that something is
left out and ends with the handle of the original. So a model can distinguish it from content, and
a note that a model copied into a new call is detected.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from storage.conversations.rows import Message
from storage.errors import InputError
from workers.prune.outputs import TOOL_USE, Call

ELLIPSIS = "…"

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]+")
_BRACKETS = str.maketrans({"⟦": "[", "⟧": "]"})
_WINDOW = 1_000
"""Characters of a text that are read to show its first words: normalising all of it is slow."""

_NOTE = re.compile(r"⟦[^⟦⟧\n]*\bwhole: out-\d+-\d+⟧")


def holds_note(text: str) -> bool:
    """Return whether a text contains a note, as arguments do that a model has copied one into."""
    return "⟦" in text and _NOTE.search(text) is not None


def left_out(what: str, facts: str, handle: Handle) -> str:
    """Return the note that replaces a tool's output."""
    return _note(f"output left out: {what} gave {facts}", handle)


def same_again(what: str, facts: str, handle: Handle) -> str:
    """Return the note that replaces an output which a later call returned again."""
    return _note(f"same output as of a later call: {what} gave {facts}", handle)


def argument_left_out(facts: str, handle: Handle) -> str:
    """Return the note that replaces a long argument."""
    return _note(f"argument left out: {facts}", handle)


def images_left_out(count: int, handle: Handle) -> str:
    """Return the note that replaces images."""
    return _note(f"{counted(count, 'image')} left out", handle)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: `1 line`, `1,234 lines`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def quoted(text: str, room: int) -> str:
    """Return the beginning of an untrusted text in quotes, on one line: a citation, not an
    instruction."""
    return f'"{one_line(text, room)}"'


def one_line(text: str, room: int) -> str:
    """Return a text of at most `room` characters without line breaks or brackets of a note."""
    line = " ".join(_CONTROL.sub(" ", text[: max(_WINDOW, room)]).translate(_BRACKETS).split())
    whole = len(line) <= room and len(text) <= max(_WINDOW, room)
    return line if whole else line[: room - 1] + ELLIPSIS


def _note(words: str, handle: Handle) -> str:
    return f"⟦{words}; whole: {handle}⟧"


_HANDLE = re.compile(r"out-(0|[1-9][0-9]{0,17})-(0|[1-9][0-9]{0,17})")


class HandleError(InputError):
    """The text is not a handle of tool output. The handle is in the note that replaced the
    output."""

    def __init__(self, given: str) -> None:
        super().__init__(
            f"{given[:60]!r} is not a handle of tool output; a handle looks like out-12-345 and is "
            "at the end of the note"
        )


@dataclass(frozen=True, slots=True)
class Handle:
    """The name of a pruned message: the key of its session and its position there.

    It never names another message, and it does not depend on the database in use.
    """

    session_key: int
    position: int

    def __str__(self) -> str:
        return f"out-{self.session_key}-{self.position}"

    @classmethod
    def parse(cls, text: str) -> Handle:
        """Read a handle as it appears in a note; surrounding blanks are ignored. Raises
        `HandleError`."""
        found = _HANDLE.fullmatch(text.strip())
        if found is None:
            raise HandleError(text)
        return cls(int(found[1]), int(found[2]))


ARGUMENTS_CHARS = 500
"""Arguments of a call up to this total size stay as they are."""

STRING_CHARS = 200
"""Strings in arguments up to this size stay as they are."""

_BEGIN_CHARS = 40
_DEPTH = 100
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"(\s*:)?', re.DOTALL)
_SIGNED = re.compile(r"signature|encrypted", re.IGNORECASE)
_PLAIN = frozenset({"role", "content", "tool_calls", "name"})
_PLAIN_CALL = frozenset({"id", "type", "function"})
_PLAIN_FUNCTION = frozenset({"name", "arguments"})


def shortened_calls(message: Message, exempt: frozenset[int], handle: Handle) -> Message | None:
    """Return the message with its long arguments shortened; None if there is nothing to shorten.

    `exempt` are the indexes, in the order of `calls_of`, of calls that stay as they are.
    """
    content = message.get("content")
    listed = list(message.get("tool_calls") or ())
    if not isinstance(content, list) and not any(map(_is_long, listed)):
        return None
    if _is_signed({name: message[name] for name in message.keys() - _PLAIN}):
        return None
    if isinstance(content, list) and any(
        _is_signed(part) for part in content if part.get("type") != "text"
    ):
        return None
    calls = [_shortened(call, i in exempt, handle) for i, call in enumerate(listed)]
    changed = {**message, "tool_calls": calls} if calls != listed else dict(message)
    if isinstance(content, list):
        parts = _shortened_parts(
            content, {call.get("id") for call in listed}, len(listed), exempt, handle
        )
        if parts != content:
            changed["content"] = parts
    return changed if changed != message else None


def shortened_text(arguments: str, handle: Handle) -> str:
    """Return the JSON of arguments with notes in place of its long strings; the same text if it is
    short, or not JSON."""
    if len(arguments) <= ARGUMENTS_CHARS:
        return arguments
    try:
        json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments

    def shorter(found: re.Match[str]) -> str:
        if found[1] or len(found[0]) <= STRING_CHARS:
            return found[0]
        text: str = json.loads(found[0])
        return (
            found[0]
            if len(text) <= STRING_CHARS
            else json.dumps(_note_arguments(text, handle), ensure_ascii=False)
        )

    return _STRING.sub(shorter, arguments)


def _is_long(call: Mapping[str, Any]) -> bool:
    return len(str((call.get("function") or {}).get("arguments", ""))) > ARGUMENTS_CHARS


def _shortened(call: Any, exempt: bool, handle: Handle) -> Any:
    function = call.get("function")
    if exempt or not isinstance(function, Mapping):
        return call
    arguments = function.get("arguments")
    if not isinstance(arguments, str) or len(arguments) <= ARGUMENTS_CHARS:
        return call
    if _is_signed({name: call[name] for name in call.keys() - _PLAIN_CALL}) or _is_signed(
        {name: function[name] for name in function.keys() - _PLAIN_FUNCTION}
    ):
        return call
    shorter = shortened_text(arguments, handle)
    return (
        call if shorter == arguments else {**call, "function": {**function, "arguments": shorter}}
    )


def _shortened_parts(
    content: list[Any], listed: set[Any], number: int, exempt: frozenset[int], handle: Handle
) -> list[Any]:
    parts = []
    for part in content:
        is_call = part.get("type") == TOOL_USE and part.get("id") not in listed
        if is_call and number not in exempt and "input" in part:
            parts.append({**part, "input": _shortened_value(part["input"], handle)})
        else:
            parts.append(part)
        number += is_call
    return parts


def _shortened_value(value: Any, handle: Handle) -> Any:
    call = Call("", "", value)
    return value if len(call.text) <= ARGUMENTS_CHARS else _within(value, handle, 0)


def _within(value: Any, handle: Handle, depth: int) -> Any:
    if isinstance(value, str):
        return _note_arguments(value, handle) if len(value) > STRING_CHARS else value
    if depth < _DEPTH and isinstance(value, Mapping):
        return {name: _within(inner, handle, depth + 1) for name, inner in value.items()}
    if depth < _DEPTH and isinstance(value, list):
        return [_within(inner, handle, depth + 1) for inner in value]
    return value


def _note_arguments(text: str, handle: Handle) -> str:
    size = f"{counted(len(text), 'character')} in {counted(text.count(chr(10)) + 1, 'line')}"
    return argument_left_out(f"{size}; begins {quoted(text, _BEGIN_CHARS)}", handle)


def _is_signed(value: Any, depth: int = 0) -> bool:
    """Return whether a value contains, at any depth, a signature or content that only its provider
    can read."""
    if depth > _DEPTH:
        return True
    if isinstance(value, Mapping):
        return any(
            (bool(inner) and _SIGNED.search(str(name)) is not None)
            or (name == "type" and _SIGNED.search(str(inner)) is not None)
            or _is_signed(inner, depth + 1)
            for name, inner in value.items()
        )
    return isinstance(value, list) and any(_is_signed(inner, depth + 1) for inner in value)
