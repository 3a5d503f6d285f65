"""From a gateway's messages to rows that can be stored."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from storage.messages import Draft
from storage.rows import Origin
from workers.messages import MessageError, check, outline
from workers.pruning.calls import calls_of
from workers.pruning.notes import holds_note
from workers.tokens import estimate_message

Origins: TypeAlias = Mapping[int, Origin | str] | Sequence[Origin | str | None]
"""Who wrote user-role messages: by index into the messages, or one entry per message."""


@dataclass(frozen=True, slots=True)
class TurnDraft:
    """Checked messages, and a digest by which a repetition of the same call is known.

    `copied` are the indexes of those with a tool call into which a note of ours was copied, in
    the place of what it stands for (faults F141).
    """

    rows: list[Draft]
    digest: str
    copied: tuple[int, ...] = ()

    @property
    def tokens(self) -> int:
        return sum(draft.tokens for draft in self.rows)


def draft_turn(
    messages: Sequence[Mapping[str, Any]], origins: Origins | None, *, closes_turn: bool
) -> TurnDraft:
    """Check the messages of one call and estimate their tokens. Raises `MessageError`."""
    texts = check(messages)
    stated = _read_origins(origins, len(messages))
    rows = [_draft(message, stated.get(index)) for index, message in enumerate(messages)]
    whole = hashlib.sha256(b"closes" if closes_turn else b"open")
    for text, draft in zip(texts, rows, strict=True):
        whole.update(f"\n{draft.origin or ''}:".encode())
        whole.update(text.encode("utf-8", "surrogatepass"))
    copied = tuple(
        index
        for index, message in enumerate(messages)
        if rows[index].calls and any(holds_note(call.text) for call in calls_of(message))
    )
    return TurnDraft(rows, whole.hexdigest(), copied)


def _draft(message: Mapping[str, Any], origin: Origin | None) -> Draft:
    facts = outline(message, origin)
    return Draft(
        message=message,
        tokens=estimate_message(message),
        role=facts.role,
        origin=facts.origin,
        opens_turn=facts.opens_turn,
        calls=facts.calls,
        answers=facts.answers,
    )


def _read_origins(origins: Origins | None, messages: int) -> dict[int, Origin]:
    if origins is None:
        return {}
    pairs = origins.items() if isinstance(origins, Mapping) else enumerate(origins)
    read: dict[int, Origin] = {}
    for index, origin in pairs:
        if origin is None:
            continue
        if not 0 <= index < messages:
            raise MessageError(index, "origin", f"there are only {messages} messages")
        try:
            read[index] = Origin(origin)
        except ValueError:
            known = ", ".join(o.value for o in Origin)
            raise MessageError(
                index, "origin", f"unknown origin {origin!r:.40}, must be one of {known}"
            ) from None
    return read
