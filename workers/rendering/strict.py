"""The `strict` dialect: chat dicts for templates that insist on user/assistant alternation.

When they check, such templates skip tool rows and the assistant rows that make the calls, so
alternation is judged on the other rows, here called the counted ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from workers.rendering.calls import BRIDGE_LINE, OPENING_LINE
from workers.rendering.chat import chat_message, results_of
from workers.rendering.repair import Step

_BLANK_LINE = "\n\n"


@dataclass(frozen=True, slots=True)
class _Entry:
    """A chat message with its results; `alone` forbids joining it with a neighbour."""

    message: dict[str, Any]
    results: tuple[dict[str, Any], ...] = ()
    alone: bool = False

    @property
    def role(self) -> str:
        return str(self.message["role"])

    @property
    def counted(self) -> bool:
        return not self.results


def write(steps: Sequence[Step]) -> tuple[list[dict[str, Any]], tuple[int, ...]]:
    """Return the chat messages of `steps`, and the positions of those with nothing to show.

    At most one system message comes first, with all system text in it. Neighbouring assistant
    messages are joined, also into a following one that makes calls. Neighbouring user messages are
    joined, except the newest real one, which stays alone and as stored; user messages that cannot
    be joined are separated by a constant assistant line.
    """
    system: list[dict[str, Any]] = []
    entries: list[_Entry] = []
    bare: list[int] = []
    for step in steps:
        message = chat_message(step.message)
        if message is None:
            bare += [] if step.position is None else [step.position]
        elif step.is_system:
            system.append(message)
        else:
            _append(entries, _Entry(message, tuple(results_of(step)), alone=step.newest))
    if _first_counted_role(entries) == "assistant":
        entries.insert(0, _Entry({"role": "user", "content": OPENING_LINE}))
    messages = [_join_system(system)] if system else []
    for entry in entries:
        messages += [entry.message, *entry.results]
    return messages, tuple(bare)


def _append(entries: list[_Entry], entry: _Entry) -> None:
    """Append `entry` so that the counted roles keep alternating."""
    last = entries[-1] if entries else None
    if entry.role == "user":
        if last and last.role == "user" and not (last.alone or entry.alone):
            entries[-1] = _Entry(_join_users(last.message, entry.message))
            return
        if _last_counted_role(entries) == "user":
            entries.append(_Entry({"role": "assistant", "content": BRIDGE_LINE}))
    elif last and last.role == "assistant" and last.counted:
        content = _join(last.message.get("content"), entry.message.get("content"))
        entries[-1] = _Entry({**entry.message, "content": content}, entry.results)
        return
    entries.append(entry)


def _first_counted_role(entries: Sequence[_Entry]) -> str | None:
    return next((entry.role for entry in entries if entry.counted), None)


def _last_counted_role(entries: Sequence[_Entry]) -> str | None:
    return next((entry.role for entry in reversed(entries) if entry.counted), None)


def _join_system(system: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return one message of role system; these templates know no other role for it."""
    joined = {**system[0], "role": "system"}
    for later in system[1:]:
        joined["content"] = _join(joined["content"], later["content"])
    return joined


def _join_users(earlier: dict[str, Any], later: dict[str, Any]) -> dict[str, Any]:
    """Return both texts in one message, with the other fields that both share.

    A name that only one of them carries must not claim the words of the other.
    """
    shared = {key: value for key, value in later.items() if earlier.get(key) == value}
    content = _join(earlier["content"], later["content"])
    return {**shared, "role": "user", "content": content}


def _join(earlier: Any, later: Any) -> Any:
    """Join two contents: texts with a blank line, part lists as one list, blank ones left out."""
    if _is_blank(earlier):
        return later
    if _is_blank(later):
        return earlier
    if isinstance(earlier, str) and isinstance(later, str):
        return earlier + _BLANK_LINE + later
    return [*_as_parts(earlier), *_as_parts(later)]


def _is_blank(content: Any) -> bool:
    return not (content.strip() if isinstance(content, str) else content)


def _as_parts(content: Any) -> list[Any]:
    return content if isinstance(content, list) else [{"type": "text", "text": content}]
