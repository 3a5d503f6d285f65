"""What a batch job tells gateways (ENGINE.md §10): signals, stored with what they tell of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection

from storage import signals
from storage.sessions import SessionRecord
from storage.signals import Signal, SignalKind
from workers.workshop import Workshop

_ALWAYS = frozenset(
    {
        SignalKind.STUCK,
        SignalKind.EXHAUSTED,
        SignalKind.RESET,
        SignalKind.COMPACT_THREAD,
    }
)
"""Signals on which somebody has to act. All others are quiet unless `progress_notices` is on."""

STUCK_SENTENCE = (
    "This conversation cannot be made smaller any more. Please start a new one; "
    "everything said here stays searchable."
)
RESET_SENTENCE = (
    "This conversation had outgrown the model and could not be summarised, so only its beginning, "
    "its last good summary and its newest turn are still shown to the model. Everything else "
    "stays searchable, and the reset can be undone."
)


@dataclass(slots=True)
class Telling:
    """Stores the signals of one job's pass and remembers them, to be pushed after the commit."""

    shop: Workshop
    key: int
    told: list[Signal] = field(default_factory=list)

    def tell(self, connection: Connection, kind: SignalKind, **facts: Any) -> None:
        """Store a signal with the rest of the transaction."""
        loud = kind in _ALWAYS or self.shop.settings.current().compression.progress_notices
        self.told.append(
            signals.emit(connection, self.shop.database, self.key, kind, facts, quiet=not loud)
        )


def figures(before: SessionRecord, after: SessionRecord) -> dict[str, int]:
    """The facts of a change of the view."""
    return {
        "messages_before": before.live_messages,
        "messages_after": after.live_messages,
        "tokens_before": before.live_tokens,
        "tokens_after": after.live_tokens,
    }
