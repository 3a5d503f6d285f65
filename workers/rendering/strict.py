"""The `strict` dialect: chat dicts for templates that insist on user/assistant alternation.

Such templates skip tool rows and the assistant rows that make the calls when they check
(F005), so alternation is judged on the other rows, here called the counted ones.
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
class _Spoken:
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
    """Give the chat messages of `steps`, and the positions of those with nothing to show.

    One system message leads at most, with all system text in it. Neighbouring assistant messages
    are joined, also into a following one that makes calls. Neighbouring user messages are
    joined, but the newest real one stands alone and as stored; between user messages that cannot
    be joined stands a constant assistant line.
    """
    system: list[dict[str, Any]] = []
    spoken: list[_Spoken] = []
    bare: list[int] = []
    for step in steps:
        message = chat_message(step.message)
        if message is None:
            bare += [] if step.position is None else [step.position]
        elif step.is_system:
            system.append(message)
        else:
            _say(spoken, _Spoken(message, tuple(results_of(step)), alone=step.newest))
    if _first_counted_role(spoken) == "assistant":
        spoken.insert(0, _Spoken({"role": "user", "content": OPENING_LINE}))
    messages = [_join_system(system)] if system else []
    for turn in spoken:
        messages += [turn.message, *turn.results]
    return messages, tuple(bare)


def _say(spoken: list[_Spoken], turn: _Spoken) -> None:
    """Append `turn` to what was spoken so that the counted roles go on alternating."""
    last = spoken[-1] if spoken else None
    if turn.role == "user":
        if last and last.role == "user" and not (last.alone or turn.alone):
            spoken[-1] = _Spoken(_join_users(last.message, turn.message))
            return
        if _last_counted_role(spoken) == "user":
            spoken.append(_Spoken({"role": "assistant", "content": BRIDGE_LINE}))
    elif last and last.role == "assistant" and last.counted:
        content = _join(last.message.get("content"), turn.message.get("content"))
        spoken[-1] = _Spoken({**turn.message, "content": content}, turn.results)
        return
    spoken.append(turn)


def _first_counted_role(spoken: Sequence[_Spoken]) -> str | None:
    return next((turn.role for turn in spoken if turn.counted), None)


def _last_counted_role(spoken: Sequence[_Spoken]) -> str | None:
    return next((turn.role for turn in reversed(spoken) if turn.counted), None)


def _join_system(system: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return one message of role system; these templates know no other role for it."""
    joined = {**system[0], "role": "system"}
    for later in system[1:]:
        joined["content"] = _join(joined["content"], later["content"])
    return joined


def _join_users(earlier: dict[str, Any], later: dict[str, Any]) -> dict[str, Any]:
    """Both texts in one message, with the other fields that both share: a name that only one of
    them carries must not claim the words of the other."""
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
