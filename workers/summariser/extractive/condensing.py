"""Condensing of a summary made of lines: the oldest lines are condensed first.

Lines are shortened, then joined, then dropped; the first line of a summary then counts the dropped
steps, and the count keeps growing: `… (+12)`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from workers.conversation.tokens import estimate_text

JOINT = " ┆ "
ELLIPSIS = "…"

COUNT = re.compile(r"… \(\+(\d{1,9})\)")
_SHORT_TOKENS = 24
_JOINED_TOKENS = 14
_PARTS_OF_A_LINE = 3


@dataclass(frozen=True, slots=True)
class Lines:
    """A summary as lines, oldest first, and the number of earlier ones that were dropped."""

    lines: tuple[str, ...]
    dropped: int = 0

    @classmethod
    def of(cls, summary: str) -> Lines:
        """Read the lines of any summary."""
        lines = [line.strip() for line in summary.splitlines() if line.strip()]
        count = COUNT.fullmatch(lines[0]) if lines else None
        return cls(tuple(lines[1:]), int(count[1])) if count else cls(tuple(lines))

    def __str__(self) -> str:
        count = [f"{ELLIPSIS} (+{self.dropped})"] if self.dropped else []
        return "\n".join([*count, *self.lines])

    @property
    def tokens(self) -> int:
        return estimate_text(str(self))

    def then(self, lines: Sequence[str]) -> Lines:
        """Add newer lines. Of equal lines only the newest stays."""
        newest_first = dict.fromkeys(reversed((*self.lines, *lines)))
        return Lines(tuple(reversed(newest_first)), self.dropped)


def condensed(summary: Lines, budget: int, *, fresh: int = 0) -> Lines:
    """Condense `summary` to at most `budget` tokens; at least its count is left.

    The last `fresh` lines are changed only when all older ones are dropped.
    """
    older, newer = _divided(summary, fresh)
    older = _shortened(older, newer, budget)
    older = _joined(older, newer, budget)
    whole = _dropped(older, newer, budget)
    if whole.tokens > budget and fresh:
        return condensed(whole, budget)
    return whole


def clip(line: str, tokens: int) -> str:
    """Cut a line to at most `tokens` (more than 1), at the end of a word if one is near.

    A code span that is cut is closed.
    """
    if estimate_text(line) <= tokens:
        return line
    end = len(line) * tokens // estimate_text(line)
    while end > 1:
        cut = _closed(_at_word_end(line[:end]).rstrip(" ,⇒|(`…") + ELLIPSIS)
        if estimate_text(cut) <= tokens:
            return cut
        end = end * 9 // 10
    return ELLIPSIS


def _divided(summary: Lines, fresh: int) -> tuple[Lines, tuple[str, ...]]:
    border = max(0, len(summary.lines) - fresh)
    return Lines(summary.lines[:border], summary.dropped), summary.lines[border:]


def _fits(older: Lines, newer: tuple[str, ...], budget: int) -> bool:
    return Lines((*older.lines, *newer), older.dropped).tokens <= budget


def _shortened(older: Lines, newer: tuple[str, ...], budget: int) -> Lines:
    lines = list(older.lines)
    for place, line in enumerate(lines):
        if _fits(Lines(tuple(lines), older.dropped), newer, budget):
            break
        if JOINT not in line:
            lines[place] = clip(line, _SHORT_TOKENS)
    return Lines(tuple(lines), older.dropped)


def _joined(older: Lines, newer: tuple[str, ...], budget: int) -> Lines:
    lines = list(older.lines)
    place = 0
    while place + 1 < len(lines) and not _fits(Lines(tuple(lines), older.dropped), newer, budget):
        parts = [part for line in lines[place : place + 2] for part in line.split(JOINT)]
        joint = JOINT.join(clip(part, _JOINED_TOKENS) for part in parts)
        # Joining short lines saves nothing: dropping the oldest is better.
        saves = 4 * estimate_text(joint) <= 3 * sum(map(estimate_text, lines[place : place + 2]))
        if saves and len(parts) <= _PARTS_OF_A_LINE:
            lines[place : place + 2] = [joint]
        else:
            place += 1
    return Lines(tuple(lines), older.dropped)


def _dropped(older: Lines, newer: tuple[str, ...], budget: int) -> Lines:
    lines, dropped = older.lines, older.dropped
    while lines and not _fits(Lines(lines, dropped), newer, budget):
        dropped += len(lines[0].split(JOINT))
        lines = lines[1:]
    return Lines((*lines, *newer), dropped)


def _at_word_end(text: str) -> str:
    space = text.rfind(" ")
    return text[:space] if space > len(text) * 3 // 4 else text


def _closed(text: str) -> str:
    return text + "`" if text.count("`") % 2 else text
