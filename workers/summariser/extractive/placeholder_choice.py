"""Which lines a placeholder has room for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from workers.redaction import redact
from workers.summariser.extractive.placeholder_lines import HEADING, Line, written
from workers.tokens import estimate_text

_EARLIER_SHARE = 0.5
_STEPS_SHARE = 0.35

_LINE_COST = 20
"""Tokens that every line is taken to cost beyond its own, so that short ones do not always win."""


@dataclass(frozen=True, slots=True)
class Room:
    """What may be written, in tokens and in characters."""

    tokens: float
    chars: float

    def share(self, part: float) -> Room:
        return Room(self.tokens * part, self.chars * part)

    def less(self, text: str) -> Room:
        return Room(self.tokens - estimate_text(text), self.chars - len(text))

    def holds(self, text: str) -> bool:
        return len(text) <= self.chars and estimate_text(text) <= self.tokens


def fitted(lines: Sequence[Line], earlier: frozenset[Line], room: Room) -> str:
    """Write the text of a placeholder from the lines that fit into `room`, redacted.

    All of them where that is enough; else the last request, then of `earlier` ones the most
    telling up to half of the room, of new steps the newest up to 35 % of the rest, and then of
    all the most telling for their size. HEADING alone where no line fits.
    """
    kept = list(lines) if room.holds(written(lines)) else _chosen(lines, earlier, room)
    # The estimates of lines do not add up exactly, and redaction may lengthen a text.
    while kept:
        if room.holds(written(kept)) and room.holds(text := redact(written(kept))):
            return text
        kept.remove(max(kept, key=_rank))
    return HEADING


def _chosen(lines: Sequence[Line], earlier: frozenset[Line], room: Room) -> list[Line]:
    newest_first = list(reversed(lines))
    ranked = sorted(newest_first, key=_rank)
    left = room.less(written(())).less("\n".join({line.section.heading for line in lines}))
    taken: set[Line] = set()
    for wanted, share in (
        ([line for line in ranked if line.is_request], 1.0),
        ([line for line in ranked if line in earlier], _EARLIER_SHARE),
        ([line for line in newest_first if _is_new_step(line, earlier)], _STEPS_SHARE),
        (ranked, 1.0),
    ):
        shared = left.share(share)
        for line in wanted:
            text = f"\n{line}"
            if line not in taken and shared.holds(text):
                shared, left = shared.less(text), left.less(text)
                taken.add(line)
    return [line for line in lines if line in taken]


def _is_new_step(line: Line, earlier: frozenset[Line]) -> bool:
    return line.is_step and line.telling > 0 and line not in earlier


def _rank(line: Line) -> float:
    """The best first: the last request, then what is most telling for the room that it takes."""
    if line.is_request:
        return -float("inf")
    return -line.worth / (estimate_text(line.text) + _LINE_COST)
