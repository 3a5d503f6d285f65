"""A summary as lines in sections: read, joined, fitted to a size and written."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from workers.conversation.tokens import estimate_text
from workers.summariser.answer_forms import is_blank
from workers.summariser.extractive.condensing import COUNT, ELLIPSIS, JOINT
from workers.summariser.extractive.salience import concerns, salience
from workers.summariser.extractive.sentences import flat, is_heading, span, units
from workers.summariser.extractive.steps import CALLED, SAID
from workers.summariser.headings import Section, outline
from workers.summariser.passages import NOTE

HEADING = (
    "[Placeholder made without a model: the summariser could not be used. The originals "
    "can be searched; a real summary will follow.]"
)
REQUEST = "Last request then (history): "

_BULLET = "- "
_LONGEST_LINE = 100
_HIGHEST = 1_000_000

_CODE_FENCE = re.compile(r"(?:```|~~~)[\w-]*")
_ITEM = re.compile(
    r"(?:(?:[-*+]\s+(?:\[[ xX]\]\s+)?|(?:\d{1,7}[-–])?(?P<last>\d{1,7})[.)、]\s+)(?=\S))+"
)
_UPDATED = re.compile(r"[$€£¥]\s?\d[\d.,]*|\d{4}-\d{2}-\d{2}")
_STATED = frozenset({Section.GOAL, Section.CONSTRAINTS, Section.DECISIONS, Section.QUESTIONS})

# Requirements of a person rank before steps of the agent.
_BONUS: Mapping[Section, int] = MappingProxyType(
    {
        Section.GOAL: 1,
        Section.CONSTRAINTS: 3,
        Section.PROGRESS: 0,
        Section.DECISIONS: 3,
        Section.FILES: 1,
        Section.QUESTIONS: 2,
        Section.STATE: 1,
    }
)

_TOPIC_SHARE = 0.65
_EARLIER_SHARE = 0.5
_STEPS_SHARE = 0.35
_FILES_SHARE = 0.1

_LINE_COST = 20
"""Tokens added to the cost of every line, so that short ones do not always win."""


@dataclass(frozen=True, slots=True)
class SummaryLine:
    """A statement, step or file, without its bullet, and its section."""

    section: Section
    text: str
    salience: int

    @classmethod
    def of(cls, section: Section, text: str) -> SummaryLine:
        return cls(section, text, salience(text))

    @property
    def is_request(self) -> bool:
        return self.section is Section.STATE and self.text.startswith(REQUEST)

    @property
    def is_step(self) -> bool:
        return self.section in (Section.PROGRESS, Section.STATE) and not self.is_request

    @property
    def weight(self) -> int:
        """The value of keeping the line; constant, so a line does not fade with age."""
        return self.salience + _BONUS[self.section]

    @property
    def rank(self) -> float:
        """A sort key, best first: the last request, then by weight per room."""
        if self.is_request:
            return -float("inf")
        return -self.weight / (estimate_text(self.text) + _LINE_COST)

    @property
    def sameness(self) -> tuple[Section, str]:
        """A key that equivalent lines share: the text, of statements without sums and dates."""
        is_stated = self.section in _STATED
        return self.section, _UPDATED.sub("#", self.text) if is_stated else self.text

    def __str__(self) -> str:
        return self.text if self.text.startswith((SAID, CALLED)) else f"{_BULLET}{self.text}"


@dataclass(frozen=True, slots=True)
class Sections:
    """The lines of a summary, oldest first within their sections.

    The lines of Progress are steps; `dropped` is the number of earlier ones that were left out. The
    number of a step is its place among all of them.
    """

    lines: tuple[SummaryLine, ...] = ()
    dropped: int = 0

    @classmethod
    def of(cls, summary: str) -> Sections:
        """Read a structured summary, a placeholder, or any text; without a heading it is Progress.

        Long and joined lines become several. The number of the last step stays the same.
        """
        lines: list[SummaryLine] = []
        section, counted, highest = Section.PROGRESS, 0, 0
        for given in outline(summary):
            if given.opens is not None:
                section = given.opens
                continue
            for text in flat(NOTE.sub(" ", given.text)).split(JOINT):
                if count := COUNT.fullmatch(text):
                    counted = max(counted, int(count[1]))
                    continue
                item = _ITEM.match(text)
                if section is Section.PROGRESS and item and item["last"]:
                    highest = max(highest, int(item["last"]))
                lines.extend(_lines(section, text))
        before = min(highest, _HIGHEST) - _steps_in(lines)
        return cls(tuple(lines), max(counted, before))

    @property
    def steps_in_all(self) -> int:
        """The number of all steps, those that were left out included."""
        return self.dropped + _steps_in(self.lines)

    def of_section(self, section: Section) -> tuple[str, ...]:
        """Return the texts of one section."""
        return tuple(line.text for line in self.lines if line.section is section)

    def only(self, kept: Collection[SummaryLine]) -> Sections:
        """Return the sections with only these lines; steps that are left out are counted."""
        lines = tuple(line for line in self.lines if line in kept)
        return Sections(lines, self.steps_in_all - _steps_in(lines))

    def each(self, change: Callable[[str], str]) -> Sections:
        """Return the sections with the text of every line changed."""
        lines = (replace(line, text=change(line.text)) for line in self.lines)
        return Sections(tuple(lines), self.dropped)

    def then(self, newer: Sections) -> Sections:
        """Return these sections joined with later ones.

        Of equivalent lines, sums and dates aside, the newest stays; a step that was taken twice is
        counted twice. The state is that of the later ones, if they have any.
        """
        earlier = self.lines
        if newer.of_section(Section.STATE):
            earlier = tuple(line for line in earlier if line.section is not Section.STATE)
        lines = newest((*earlier, *newer.lines))
        return Sections(lines, self.steps_in_all + newer.steps_in_all - _steps_in(lines))

    def __str__(self) -> str:
        """Write all seven headings, and Progress as a numbered list."""
        return "\n".join(line for section in Section for line in self._written(section))

    def _written(self, section: Section) -> Iterator[str]:
        yield section.heading
        texts = self.of_section(section)
        if section is not Section.PROGRESS:
            yield from (f"{_BULLET}{text}" for text in texts)
        elif not texts and self.dropped:
            yield f"{ELLIPSIS} (+{self.dropped})"
        else:
            yield from (f"{n}. {text}" for n, text in enumerate(texts, start=self.dropped + 1))


@dataclass(frozen=True, slots=True)
class Room:
    """The room for a text, in tokens and in characters."""

    tokens: float
    chars: float = float("inf")

    def share(self, part: float) -> Room:
        return Room(self.tokens * part, self.chars * part)

    def less(self, text: str) -> Room:
        return Room(self.tokens - estimate_text(text), self.chars - len(text))

    def holds(self, text: str) -> bool:
        return len(text) <= self.chars and estimate_text(text) <= self.tokens


def newest(lines: Sequence[SummaryLine]) -> tuple[SummaryLine, ...]:
    """Return the newest of equivalent lines, in their order."""
    newest_first: dict[tuple[Section, str], SummaryLine] = {}
    for line in reversed(lines):
        newest_first.setdefault(line.sameness, line)
    return tuple(reversed(newest_first.values()))


def fitted(
    sections: Sections,
    room: Room,
    write: Callable[[Sections], str],
    *,
    numbered: bool = False,
    earlier: Collection[SummaryLine] = (),
    terms: frozenset[str] = frozenset(),
) -> Sections:
    """Return the lines that `write` can write into `room`; none where not even one fits.

    All of them if they fit. Otherwise the last request; then lines that concern the topic of
    `terms` up to 65 % of the room; of `earlier` lines the most salient up to half of the remaining
    room, of new steps the newest up to 35 % of the rest, of files the newest up to 10 %, and then
    of all lines the most salient for their size. `numbered` says that `write` numbers the steps.
    """
    if room.holds(write(sections)):
        return sections
    left = _beside_headings(sections, room, write)
    number = "000. " if numbered else ""
    kept = sections.only(_chosen(sections.lines, left, number, frozenset(earlier), terms))
    # The estimates of lines do not add up exactly.
    while kept.lines and not room.holds(write(kept)):
        kept = without_least(kept)
    return kept


def without_least(sections: Sections) -> Sections:
    """Return the sections without the line that ranks last."""
    least = max(sections.lines, key=lambda line: line.rank)
    return sections.only([line for line in sections.lines if line is not least])


def _beside_headings(sections: Sections, room: Room, write: Callable[[Sections], str]) -> Room:
    bare = write(sections.only(()))
    headings = {line.section.heading for line in sections.lines} - set(bare.splitlines())
    return room.less(bare).less("\n".join(headings))


def _chosen(
    lines: Sequence[SummaryLine],
    left: Room,
    number: str,
    earlier: frozenset[SummaryLine],
    terms: frozenset[str],
) -> set[SummaryLine]:
    newest_first = list(reversed(lines))
    ranked = sorted(newest_first, key=lambda line: line.rank)
    taken: set[SummaryLine] = set()

    def take(wanted: Iterable[SummaryLine], share: float = 1.0) -> None:
        nonlocal left
        shared = left.share(share)
        for line in wanted:
            text = f"\n{number}{line}" if line.is_step else f"\n{line}"
            if line not in taken and shared.holds(text):
                shared, left = shared.less(text), left.less(text)
                taken.add(line)

    take(line for line in ranked if line.is_request)
    if terms:
        take((line for line in newest_first if concerns(line.text, terms)), _TOPIC_SHARE)
    take((line for line in ranked if line in earlier), _EARLIER_SHARE)
    take((line for line in newest_first if _is_new_step(line, earlier)), _STEPS_SHARE)
    take((line for line in newest_first if line.section is Section.FILES), _FILES_SHARE)
    take(ranked)
    return taken


def _is_new_step(line: SummaryLine, earlier: frozenset[SummaryLine]) -> bool:
    return line.is_step and line.salience > 0 and line not in earlier


def _steps_in(lines: Iterable[SummaryLine]) -> int:
    return sum(line.section is Section.PROGRESS for line in lines)


def _lines(section: Section, text: str) -> Iterator[SummaryLine]:
    is_short = text.startswith(f"{_BULLET}{REQUEST}") or estimate_text(text) <= _LONGEST_LINE
    for part in (text,) if is_short else units(text):
        item = _ITEM.match(part)
        bare = part[item.end() :] if item else part
        if is_blank(bare) or bare == HEADING or _CODE_FENCE.fullmatch(bare):
            continue
        opens = is_heading(bare) or (section is Section.PROGRESS and is_heading(bare, bullet=""))
        yield SummaryLine.of(section, span(bare) if opens else bare)
