"""The piece of a text that shows why it was found."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A piece of a text around what was found; `marks` are where it stands in `text`. Where the
    piece is not the whole, an ellipsis says so."""

    text: str
    marks: tuple[tuple[int, int], ...]

    def marked(self, before: str, after: str) -> str:
        """The text with every mark between `before` and `after`."""
        pieces: list[str] = []
        at = 0
        for start, end in self.marks:
            pieces += [self.text[at:start], before, self.text[start:end], after]
            at = end
        return "".join([*pieces, self.text[at:]])


EXCERPT = 240
"""Characters of an excerpt at most, without its ellipses."""


def excerpt(text: str, spans: Sequence[tuple[int, int]]) -> Excerpt:
    """The piece of `text` that holds most of `spans`."""
    start, end = _best(text, spans)
    before, after = "…" if start else "", "…" if end < len(text) else ""
    shift = len(before) - start
    marks = tuple(
        (max(start, first) + shift, min(end, last) + shift)
        for first, last in spans
        if first < end and last > start
    )
    return Excerpt(f"{before}{text[start:end]}{after}", marks)


def _best(text: str, spans: Sequence[tuple[int, int]]) -> tuple[int, int]:
    if len(text) <= EXCERPT:
        return 0, len(text)
    starts = [first for first, _ in spans]
    densest = max(
        range(len(starts)),
        key=lambda at: (bisect_left(starts, starts[at] + EXCERPT - EXCERPT // 4) - at, -at),
        default=None,
    )
    start = 0 if densest is None else max(0, starts[densest] - EXCERPT // 4)
    start = min(start, len(text) - EXCERPT)
    end = start + EXCERPT
    if start:
        gap = text.find(" ", start, start + 20)
        start = start if gap < 0 or (densest is not None and gap >= starts[densest]) else gap + 1
    if end < len(text):
        gap = text.rfind(" ", end - 20, end)
        end = end if gap < 0 else gap
    return start, end
