"""Matching: whether a text answers a query, how well, and where. Both databases rank by it.

The index only names the texts to read. So both databases rank alike, and a text that is not
indexed yet, or cannot be because the index is broken, is found by the same rules.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from storage.search.query import Alternative, Group, Operand, Query
from storage.search.words import Word, words_of

SATURATION = 1.2
"""How soon further occurrences of a word stop counting; as in BM25."""

USUAL_WORDS = 100
"""Length of a text at which length counts neither for nor against it."""

LENGTH_COUNTS = 0.3
TOGETHER = 1.5
"""Factor for words that are next to each other as they were typed."""

_CROWD = 10_000


@dataclass(frozen=True, slots=True)
class Match:
    """A text that answers. `whole` says that it has all that one alternative requires; `spans` are
    the places of the words, in characters."""

    found: frozenset[Operand]
    whole: bool
    score: float
    spans: tuple[tuple[int, int], ...]


@dataclass(slots=True)
class _Text:
    words: Sequence[Word]
    places: dict[str, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for place, word in enumerate(self.words):
            self.places.setdefault(word.term, []).append(place)

    def find(self, operand: Operand) -> list[tuple[int, int]]:
        """Return the places of first and last word, for each time that it occurs."""
        *firsts, last = operand.terms
        ends = self._beginning_with(last) if operand.prefix else self.places.get(last, [])
        if not firsts:
            return [(end, end) for end in ends]
        return [
            (end - len(firsts), end)
            for end in ends
            if end >= len(firsts) and self._stand_before(firsts, end)
        ]

    def _beginning_with(self, prefix: str) -> list[int]:
        return [
            place
            for place, word in enumerate(self.words)
            if word.term.startswith(prefix) or word.form.startswith(prefix)
        ]

    def _stand_before(self, terms: Sequence[str], end: int) -> bool:
        start = end - len(terms)
        return all(self.words[start + at].term == term for at, term in enumerate(terms))


def weight(documents: int) -> float:
    """Return the weight of an operand that so many documents have."""
    return math.log(1 + _CROWD / (documents + 0.5))


def match(query: Query, text: str, weights: Mapping[Operand, float]) -> Match | None:
    """Return how `text` answers; None when it does not. An operand without a weight weighs 1."""
    stored = _Text(words_of(text))
    if not stored.words:
        return None
    places = {operand: stored.find(operand) for operand in query.operands}
    answering = [one for one in query.alternatives if _answers(one, stored, places)]
    if not answering:
        return None
    wanted = {operand for one in answering for group in one.required for operand in group.operands}
    found = frozenset(operand for operand in wanted if places[operand])
    whole = any(
        all(operand in found for group in one.required for operand in group.operands)
        for one in answering
    )
    length = 1 - LENGTH_COUNTS + LENGTH_COUNTS * len(stored.words) / USUAL_WORDS
    score = 0.0
    for operand in sorted(found, key=_order):
        times = len(places[operand])
        score += weights.get(operand, 1.0) * times / (times + SATURATION * length)
    spans = {span for operand in found for span in places[operand]}
    for together in _together(answering):
        if at := stored.find(together):
            spans.update(at)
            score += TOGETHER * sum(
                weights.get(Operand((term,)), 1.0) / (1 + SATURATION * length)
                for term in together.terms
            )
    return Match(found, whole, score, _characters(stored.words, spans))


def match_fragments(fragments: Sequence[str], text: str) -> Match | None:
    """Return how `text` has pieces of text in it, also inside of words; None when it has none."""
    lowered = text.lower()
    if len(lowered) != len(text):
        # For the few letters whose length changes only the places would be wrong.
        lowered = "".join(one.lower() if len(one.lower()) == 1 else one for one in text)
    spans: list[tuple[int, int]] = []
    score = 0.0
    hit = 0
    for fragment in fragments:
        at = lowered.find(fragment)
        if at >= 0:
            hit += 1
            score += len(fragment)
            spans.append((at, at + len(fragment)))
    if not spans:
        return None
    length = 1 + len(text) / (USUAL_WORDS * 50)
    whole = hit == len(fragments)
    return Match(frozenset(), whole, score / length, _merged(sorted(spans)))


def _order(operand: Operand) -> tuple[tuple[str, ...], bool]:
    return operand.terms, operand.prefix


def _together(alternatives: Sequence[Alternative]) -> list[Operand]:
    found = (
        operand for one in alternatives for group in one.required for operand in group.together
    )
    return list(dict.fromkeys(found))


def _answers(
    alternative: Alternative, stored: _Text, places: Mapping[Operand, list[tuple[int, int]]]
) -> bool:
    return all(
        any(places[operand] for operand in group.operands) for group in alternative.required
    ) and not any(_has(group, stored) for group in alternative.excluded)


def _has(group: Group, stored: _Text) -> bool:
    return any(stored.find(operand) for operand in group.operands)


def _characters(words: Sequence[Word], spans: set[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    return _merged(sorted((words[first].start, words[last].end) for first, last in spans))


def _merged(spans: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    merged: list[tuple[int, int]] = []
    for start, end in spans:
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return tuple(merged)


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A piece of a text around its hits; `marks` are their places in `text`. An ellipsis shows
    where the text goes on."""

    text: str
    marks: tuple[tuple[int, int], ...]

    def marked(self, before: str, after: str) -> str:
        """Return the text with every mark between `before` and `after`."""
        pieces: list[str] = []
        at = 0
        for start, end in self.marks:
            pieces += [self.text[at:start], before, self.text[start:end], after]
            at = end
        return "".join([*pieces, self.text[at:]])


EXCERPT = 240
"""Characters of an excerpt at most, without its ellipses."""


def excerpt(text: str, spans: Sequence[tuple[int, int]]) -> Excerpt:
    """Return the piece of `text` that contains most of `spans`."""
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
