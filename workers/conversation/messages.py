"""Validation of messages before they are stored, and the facts that their rows record.

Gateways pass OpenAI chat dicts; they are never changed here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from storage.conversations.rows import Message, Origin
from storage.errors import InputError

ROLES = ("system", "developer", "user", "assistant", "tool")
MAX_MESSAGE_BYTES = 10 * 1024 * 1024

_MAX_DEPTH = 100
"""Objects and lists within each other; deeper ones could not be read back from every stack."""

_MAX_INTEGER_BITS = 8192
"""Python refuses to write integers of more than 4,300 digits."""

_TOOL_RESULT_PARTS = frozenset({"tool_result", "function_call_output"})
_TOOL_USE_PARTS = frozenset({"tool_use"})
_TEXT_PARTS = frozenset({"text", "input_text", "output_text"})


class MessageError(InputError):
    """A message that cannot be stored. Nothing of its turn was stored.

    `index` is its place in the given list, `field` the field at fault.
    """

    def __init__(self, index: int, field: str, problem: str) -> None:
        super().__init__(f"messages[{index}].{field}: {problem}")
        self.index = index
        self.field = field


@dataclass(frozen=True, slots=True)
class Outline:
    """The facts about a message that the rules need, without its text."""

    role: str
    origin: Origin | None
    opens_turn: bool
    calls: tuple[str, ...]
    answers: tuple[str, ...]


def outline(message: Message, origin: Origin | None = None) -> Outline:
    """Read the outline of a message that `check` has passed.

    `origin` is what the gateway states for a user-role row. Without it a person wrote the row,
    unless it holds nothing but tool results.
    """
    role = message["role"]
    parts = _parts(message.get("content"))
    listed = tuple(call["id"] for call in message.get("tool_calls") or ())
    # Some providers' rows hold a call twice, as a list entry and as a part.
    calls = listed + tuple(
        part["id"]
        for part in parts
        if part.get("type") in _TOOL_USE_PARTS and _text(part, "id") and part["id"] not in listed
    )
    answers = tuple(
        identifier
        for part in parts
        if part.get("type") in _TOOL_RESULT_PARTS
        and (identifier := _text(part, "tool_use_id") or _text(part, "call_id"))
    )
    if role == "tool":
        answers = (message["tool_call_id"], *answers)
    answers = tuple(dict.fromkeys(answers))
    if role != "user":
        return Outline(role, None, False, calls, answers)
    blank = _is_blank(message.get("content"))
    if origin is None:
        origin = Origin.TOOL if answers and blank else Origin.PERSON
    return Outline(role, origin, origin is Origin.PERSON and not blank, calls, answers)


def check(messages: Sequence[Any]) -> list[str]:
    """Check every message of a turn and return their JSON texts.

    Raises `MessageError` for the first that is no chat message: not a mapping, no role or an
    unknown one, a tool row without id, content or tool calls of the wrong type, something that
    JSON cannot carry unchanged, or more than 10 MiB.
    """
    return [_check_one(index, message) for index, message in enumerate(messages)]


def _check_one(index: int, message: Any) -> str:
    def refuse(field: str, problem: str) -> NoReturn:
        raise MessageError(index, field, problem)

    if not isinstance(message, dict):
        refuse("*", f"is a {type(message).__name__}, must be a chat message (an object)")
    role = message.get("role")
    if role is None:
        refuse("role", f"is missing, must be one of {', '.join(ROLES)}")
    if role not in ROLES:
        refuse("role", f"unknown role {role!r:.40}, must be one of {', '.join(ROLES)}")
    _check_content(message, role, refuse)
    _check_calls(message, refuse)
    if role == "tool" and not _text(message, "tool_call_id"):
        refuse("tool_call_id", "is missing, a tool row must name the call that it answers")
    if "name" in message and not isinstance(message["name"], str | None):
        refuse("name", f"is a {type(message['name']).__name__}, must be text")
    lossy = _lossy(message)
    if lossy is not None:
        refuse(*lossy)
    text = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > MAX_MESSAGE_BYTES:
        refuse(
            "content",
            f"the message has {size:,} bytes, at most {MAX_MESSAGE_BYTES:,} are taken; "
            "store large output elsewhere and put a reference here",
        )
    return text


def _check_content(message: Mapping[Any, Any], role: str, refuse: Any) -> None:
    content = message.get("content")
    if content is None:
        if role != "assistant":
            refuse("content", f"is missing, a {role} message needs text or a list of parts")
        return
    if isinstance(content, str):
        return
    if not isinstance(content, list):
        refuse("content", f"is a {type(content).__name__}, must be text or a list of parts")
    for place, part in enumerate(content):
        if not isinstance(part, dict) or not isinstance(part.get("type"), str):
            refuse(f"content[{place}]", "must be an object with a text field `type`")
        if part["type"] in _TEXT_PARTS and not isinstance(part.get("text"), str):
            refuse(f"content[{place}].text", "must be text")


def _check_calls(message: Mapping[Any, Any], refuse: Any) -> None:
    calls = message.get("tool_calls")
    if calls is None:
        return
    if message["role"] != "assistant":
        refuse("tool_calls", "only assistant messages make tool calls")
    if not isinstance(calls, list):
        refuse("tool_calls", f"is a {type(calls).__name__}, must be a list")
    for place, call in enumerate(calls):
        if not isinstance(call, dict) or not _text(call, "id"):
            refuse(f"tool_calls[{place}].id", "is missing, every call needs an id")
        function = call.get("function")
        if function is not None and not (isinstance(function, dict) and _text(function, "name")):
            refuse(f"tool_calls[{place}].function", "must be an object with a name")
        if not isinstance(call.get("custom"), dict | None):
            refuse(f"tool_calls[{place}].custom", "must be an object")


def _lossy(value: Any, path: str = "", depth: int = 0) -> tuple[str, str] | None:  # noqa: PLR0911 - one per type
    """Return the path and the problem of a value that JSON would not return unchanged, if any."""
    if depth > _MAX_DEPTH:
        return (path[:40], f"is nested more than {_MAX_DEPTH} levels deep")
    match value:
        case None | bool() | str():
            return None
        case int():
            if value.bit_length() <= _MAX_INTEGER_BITS:
                return None
            return (path or "*", "holds a whole number of thousands of digits")
        case float():
            if math.isfinite(value):
                return None
            return (path or "*", "holds a number that JSON does not know")
        case list():
            items = ((f"{path}[{i}]", item) for i, item in enumerate(value))
        case dict():
            for key in value:
                if not isinstance(key, str):
                    return (path or "*", f"has a key of type {type(key).__name__}, must be text")
            items = ((f"{path}.{key}" if path else key, item) for key, item in value.items())
        case _:
            return (path or "*", f"holds a {type(value).__name__}, which JSON cannot carry")
    return next((bad for at, item in items if (bad := _lossy(item, at, depth + 1))), None)


def _parts(content: Any) -> list[Mapping[str, Any]]:
    return content if isinstance(content, list) else []


def _is_blank(content: Any) -> bool:
    """Return whether there is no text and nothing else that a person sends.

    An image alone is not blank: it may be the whole request.
    """
    if isinstance(content, list):
        return all(
            part.get("type") in _TOOL_RESULT_PARTS
            or (part.get("type") in _TEXT_PARTS and not part["text"].strip())
            for part in content
        )
    return not (content or "").strip()


def _text(mapping: Mapping[Any, Any], key: str) -> str | None:
    value = mapping.get(key)
    return value if isinstance(value, str) and value else None
