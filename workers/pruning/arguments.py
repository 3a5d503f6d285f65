"""Long string arguments of old calls, shortened where they stand.

Whatever else is in the arguments stays by the byte: numbers, keys, order, blanks. A call that is
signed stays whole, for a signature does not hold for another text (faults F042).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from storage.rows import Message
from workers.pruning.calls import TOOL_USE, Call
from workers.pruning.handles import Handle
from workers.pruning.notes import argument_left_out, counted, quoted

ARGUMENTS_CHARS = 500
"""Arguments up to this size in all stay as they are."""

STRING_CHARS = 200
"""Strings in them up to this size, too (REFERENCE.md §6)."""

_BEGIN_CHARS = 40
_DEPTH = 100
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"(\s*:)?', re.DOTALL)
_SIGNED = re.compile(r"signature|encrypted", re.IGNORECASE)
_PLAIN = frozenset({"role", "content", "tool_calls", "name"})
_PLAIN_CALL = frozenset({"id", "type", "function"})
_PLAIN_FUNCTION = frozenset({"name", "arguments"})


def shortened_calls(message: Message, exempt: frozenset[int], handle: Handle) -> Message | None:
    """The message with its long arguments shortened; None where there is nothing to shorten.

    `exempt` are the numbers of calls, as `calls_of` gives them, that stay as they are.
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
    """The JSON of arguments with notes in the place of its long strings; the same text where it is
    short, or no JSON."""
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
            else json.dumps(_note(text, handle), ensure_ascii=False)
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
        return _note(value, handle) if len(value) > STRING_CHARS else value
    if depth < _DEPTH and isinstance(value, Mapping):
        return {name: _within(inner, handle, depth + 1) for name, inner in value.items()}
    if depth < _DEPTH and isinstance(value, list):
        return [_within(inner, handle, depth + 1) for inner in value]
    return value


def _note(text: str, handle: Handle) -> str:
    size = f"{counted(len(text), 'character')} in {counted(text.count(chr(10)) + 1, 'line')}"
    return argument_left_out(f"{size}; begins {quoted(text, _BEGIN_CHARS)}", handle)


def _is_signed(value: Any, depth: int = 0) -> bool:
    """Whether a field somewhere in it holds a signature, or content only its provider can read."""
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
