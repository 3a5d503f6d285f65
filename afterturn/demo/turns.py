"""A conversation as a gateway meets it: turn by turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from workers.conversation.messages import outline

IN_PIECES_EVERY = 3
"""Every so many turns the rows in the middle are stored while the turn is open."""

REPEATED_EVERY = 40
"""Every so many turns the call is made twice, as by a gateway that missed the answer."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A real user message and everything up to the next one.

    `early` are the rows that the gateway stores while the turn is open, `late` those that close
    it. `number` counts from 1.
    """

    number: int
    early: tuple[dict[str, Any], ...]
    late: tuple[dict[str, Any], ...]
    repeated: bool

    @property
    def messages(self) -> tuple[dict[str, Any], ...]:
        return self.early + self.late


def split_turns(messages: Sequence[dict[str, Any]]) -> tuple[Turn, ...]:
    """Cut a conversation at its real user messages (ENGINE.md §1).

    What stands before the first one, such as system messages, belongs to the first turn.
    """
    starts = [i for i, message in enumerate(messages) if outline(message).opens_turn]
    borders = [0, *starts[1:], len(messages)]
    return tuple(
        _turn(number, tuple(messages[start:end]))
        for number, (start, end) in enumerate(pairwise(borders), start=1)
    )


def _turn(number: int, rows: tuple[dict[str, Any], ...]) -> Turn:
    cut = len(rows) - 1 if number % IN_PIECES_EVERY == 0 else 0
    return Turn(number, rows[:cut], rows[cut:], repeated=number % REPEATED_EVERY == 0)
