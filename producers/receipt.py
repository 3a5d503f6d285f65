"""What a gateway gets for messages that it stored."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Receipt:
    """What was stored. `repeated` says that an earlier call with this event id had stored it.

    `turn` is the number of the turn that was closed, None while it stays open. The rows are the
    `rows` ones from `first_position` on. `copied_notes` are the positions of those with a tool call
    in which the model wrote a note of ours instead of the text that it stands for: such a call is
    not what it seems, and `Gateway.fetch_output` gives the text.
    """

    session_id: str
    event_id: str
    turn: int | None
    first_position: int
    rows: int
    repeated: bool
    copied_notes: tuple[int, ...] = ()
