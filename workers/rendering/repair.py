"""Repairs that every dialect needs: calls next to their results, no call or result alone.

Providers refuse a request whose calls and results do not match, and since the view is made from
stored rows, every retry would fail in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from storage.conversations.rows import Kind, Message, Row
from storage.errors import InputError
from workers.conversation.markers import frame
from workers.conversation.transcript import SYSTEM_ROLES, ToolGroup, tool_groups
from workers.rendering.calls import (
    OPENING_LINE,
    STUB_RESULT,
    StoredCall,
    answered_id,
    calls_of,
    parts_of,
)


class RenderingError(InputError):
    """A row that was loaded without its text and cannot be rendered; load the view with texts.

    `position` is the row's place in its session.
    """

    def __init__(self, position: int, missing: str) -> None:
        super().__init__(f"row at position {position} has no {missing}; load the view with texts")
        self.position = position


@dataclass(frozen=True, slots=True)
class CallResult:
    """A tool message; `slot` is the index of the call that it answers among those of its step."""

    slot: int
    message: Message


@dataclass(frozen=True, slots=True)
class Step:
    """A message with, when it makes calls, exactly one result for each.

    Results are in view order, followed by constant ones for unanswered calls. `newest` marks the
    newest real user message. `position` is None for a message that is not from a row.
    """

    message: Message
    calls: tuple[StoredCall, ...] = ()
    results: tuple[CallResult, ...] = ()
    newest: bool = False
    position: int | None = None

    @property
    def is_system(self) -> bool:
        return self.message["role"] in SYSTEM_ROLES

    @property
    def is_user(self) -> bool:
        return bool(self.message["role"] == "user")


@dataclass(frozen=True, slots=True)
class Repaired:
    """Steps with at least one user message among them; `omitted` and `stubbed` as in the view."""

    steps: tuple[Step, ...]
    omitted: tuple[int, ...]
    stubbed: tuple[int, ...]


def repair(rows: Sequence[Row]) -> Repaired:
    """Order `rows` into steps: results after their calls, the newest result of each call.

    Late results move up. A call without a result gets a constant one. Results that answer
    nothing, or that a newer one replaced, are omitted. Raises `RenderingError`.
    """
    pieces = [piece for row in rows for piece in _split(row)]
    groups = {group.call: group for group in tool_groups(pieces)}
    shown = {by for group in groups.values() for by in group.answered_by if by is not None}
    newest = max((index for index, piece in enumerate(pieces) if piece.opens_turn), default=None)
    steps = [
        _step(piece, pieces, groups.get(index), index == newest)
        for index, piece in enumerate(pieces)
        if not piece.answers
    ]
    if not any(step.is_user for step in steps):
        opening = sum(1 for _ in takewhile(lambda step: step.is_system, steps))
        steps.insert(opening, Step({"role": "user", "content": OPENING_LINE}))
    return Repaired(
        tuple(steps),
        tuple(p.position for i, p in enumerate(pieces) if p.answers and i not in shown),
        tuple(pieces[group.call].position for group in groups.values() if group.unanswered),
    )


def _split(row: Row) -> Iterator[Row]:
    """Yield `row` in pieces that each answer one call or none.

    CallResult parts become tool pieces of their own, and the rest of the message stays one piece in
    its place, since results are paired by part, not by row. A tool row with its own id keeps the
    part that repeats it.
    """
    if row.kind is not Kind.MESSAGE:
        if row.summary is None:
            raise RenderingError(row.position, "summary")
        framed = {"role": "user", "content": frame(row.shown)}
        yield replace(row, message=framed, opens_turn=False, calls=(), answers=())
        return
    message = row.message
    if message is None:
        raise RenderingError(row.position, "message")
    own = message.get("tool_call_id") if message["role"] == "tool" else None
    kept = []
    for part in parts_of(message):
        answered = answered_id(part)
        if answered is None or answered == own:
            kept.append(part)
            continue
        result = {"role": "tool", "tool_call_id": answered, "content": [part]}
        yield replace(
            row, role="tool", opens_turn=False, calls=(), answers=(answered,), message=result
        )
    if len(kept) < len(parts_of(message)):
        if not kept and not own:
            return
        message = {**message, "content": kept}
    calls = tuple(call.id for call in calls_of(message))
    yield replace(row, message=message, calls=calls, answers=(own,) if own else ())


def _step(piece: Row, pieces: Sequence[Row], group: ToolGroup | None, newest: bool) -> Step:
    message = _message(piece)
    if group is None:
        return Step(message, newest=newest, position=piece.position)
    answered = sorted((by, slot) for slot, by in enumerate(group.answered_by) if by is not None)
    results = [CallResult(slot, _message(pieces[by])) for by, slot in answered]
    results += [
        CallResult(slot, {"role": "tool", "tool_call_id": call, "content": STUB_RESULT})
        for slot, (call, by) in enumerate(zip(group.calls, group.answered_by, strict=True))
        if by is None
    ]
    return Step(message, calls_of(message), tuple(results), newest, piece.position)


def _message(piece: Row) -> Message:
    if piece.message is None:
        raise RenderingError(piece.position, "message")
    return piece.message
