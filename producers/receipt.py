"""What a gateway gets for messages that it stored."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Receipt:
    """What was stored. `repeated` says that an earlier call with this event id had stored it.

    `turn` is the number of the turn that was closed, None while it stays open. The rows are the
    `rows` ones from `first_position` on.
    """

    session_id: str
    event_id: str
    turn: int | None
    first_position: int
    rows: int
    repeated: bool
