"""What a summary tells, as lines in sections: read, joined, brought to a size and written."""

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

# What a person laid down comes before what the agent did.
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
"""Tokens that every line is taken to cost beyond its own, so that short ones do not always win."""


@dataclass(frozen=True, slots=True)
class Line:
    """One statement, step or file, without its bullet, and the section it belongs to."""

    section: Section
    text: str
    salience: int

    @classmethod
    def of(cls, section: Section, text: str) -> Line:
        return cls(section, text, salience(text))

    @property
    def is_request(self) -> bool:
        return self.section is Section.STATE and self.text.startswith(REQUEST)

    @property
    def is_step(self) -> bool:
        return self.section in (Section.PROGRESS, Section.STATE) and not self.is_request

    @property
    def weight(self) -> int:
        """Return the value of keeping it: the same in every round, so nothing fades by being
        old."""
        return self.salience + _BONUS[self.section]

    @property
    def rank(self) -> float:
        """Return a sort key, best first: the last request, then by weight for the room it takes."""
        if self.is_request:
            return -float("inf")
        return -self.weight / (estimate_text(self.text) + _LINE_COST)

    @property
    def sameness(self) -> tuple[Section, str]:
        """Return what equal lines have in common: of statements all but sums and dates."""
        is_stated = self.section in _STATED
        return self.section, _UPDATED.sub("#", self.text) if is_stated else self.text

    def __str__(self) -> str:
        return self.text if self.text.startswith((SAID, CALLED)) else f"{_BULLET}{self.text}"


@dataclass(frozen=True, slots=True)
class Sections:
    """The lines of a summary, oldest first within their sections.

    The lines of Progress are steps; `dropped` is how many earlier ones are not told any more. A
    step's number is its place among all of them.
    """

    lines: tuple[Line, ...] = ()
    dropped: int = 0

    @classmethod
    def of(cls, summary: str) -> Sections:
        """Read a structured summary, a placeholder, or any text; without a heading it is Progress.

        Long lines and joined ones become several. The number of the last step stays what it is.
        """
        lines: list[Line] = []
        section, counted, highest = Section.PROGRESS, 0, 0
        for told in outline(summary):
            if told.opens is not None:
                section = told.opens
                continue
            for text in flat(NOTE.sub(" ", told.text)).split(JOINT):
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
        """Return the number of steps taken, whether they are still told or not."""
        return self.dropped + _steps_in(self.lines)

    def of_section(self, section: Section) -> tuple[str, ...]:
        """Return the texts of one section."""
        return tuple(line.text for line in self.lines if line.section is section)

    def only(self, kept: Collection[Line]) -> Sections:
        """Leave out all other lines; steps among them are counted."""
        lines = tuple(line for line in self.lines if line in kept)
        return Sections(lines, self.steps_in_all - _steps_in(lines))

    def each(self, change: Callable[[str], str]) -> Sections:
        """Change the text of every line."""
        lines = (replace(line, text=change(line.text)) for line in self.lines)
        return Sections(tuple(lines), self.dropped)

    def then(self, newer: Sections) -> Sections:
        """Join what was told later.

        Of lines that say the same, sums and dates aside, the newest stays; a step that was taken
        twice is counted twice. The state is that of the later one, if it has any.
        """
        told = self.lines
        if newer.of_section(Section.STATE):
            told = tuple(line for line in told if line.section is not Section.STATE)
        lines = newest((*told, *newer.lines))
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
    """What may be written, in tokens and in characters."""

    tokens: float
    chars: float = float("inf")

    def share(self, part: float) -> Room:
        return Room(self.tokens * part, self.chars * part)

    def less(self, text: str) -> Room:
        return Room(self.tokens - estimate_text(text), self.chars - len(text))

    def holds(self, text: str) -> bool:
        return len(text) <= self.chars and estimate_text(text) <= self.tokens


def newest(lines: Sequence[Line]) -> tuple[Line, ...]:
    """Keep the newest of lines that say the same, in their order."""
    newest_first: dict[tuple[Section, str], Line] = {}
    for line in reversed(lines):
        newest_first.setdefault(line.sameness, line)
    return tuple(reversed(newest_first.values()))


def fitted(
    told: Sections,
    room: Room,
    write: Callable[[Sections], str],
    *,
    numbered: bool = False,
    earlier: Collection[Line] = (),
    terms: frozenset[str] = frozenset(),
) -> Sections:
    """Choose the lines that `write` can write into `room`; none where not even one fits.

    All of them where that is enough. Else the last request; then what concerns the topic of
    `terms` up to 65 % of the room; of `earlier` lines the most salient up to half of what is left,
    of new steps the newest up to 35 % of the rest, of files the newest up to 10 %, and then of all
    the most salient for their size.
    `numbered` says that `write` numbers the steps.
    """
    if room.holds(write(told)):
        return told
    left = _beside_headings(told, room, write)
    number = "000. " if numbered else ""
    kept = told.only(_chosen(told.lines, left, number, frozenset(earlier), terms))
    # The estimates of lines do not add up exactly.
    while kept.lines and not room.holds(write(kept)):
        kept = without_least(kept)
    return kept


def without_least(told: Sections) -> Sections:
    """Leave out the line that ranks last."""
    least = max(told.lines, key=lambda line: line.rank)
    return told.only([line for line in told.lines if line is not least])


def _beside_headings(told: Sections, room: Room, write: Callable[[Sections], str]) -> Room:
    bare = write(told.only(()))
    headings = {line.section.heading for line in told.lines} - set(bare.splitlines())
    return room.less(bare).less("\n".join(headings))


def _chosen(
    lines: Sequence[Line], left: Room, number: str, earlier: frozenset[Line], terms: frozenset[str]
) -> set[Line]:
    newest_first = list(reversed(lines))
    ranked = sorted(newest_first, key=lambda line: line.rank)
    taken: set[Line] = set()

    def take(wanted: Iterable[Line], share: float = 1.0) -> None:
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


def _is_new_step(line: Line, earlier: frozenset[Line]) -> bool:
    return line.is_step and line.salience > 0 and line not in earlier


def _steps_in(lines: Iterable[Line]) -> int:
    return sum(line.section is Section.PROGRESS for line in lines)


def _lines(section: Section, text: str) -> Iterator[Line]:
    is_short = text.startswith(f"{_BULLET}{REQUEST}") or estimate_text(text) <= _LONGEST_LINE
    for part in (text,) if is_short else units(text):
        item = _ITEM.match(part)
        bare = part[item.end() :] if item else part
        if is_blank(bare) or bare == HEADING or _CODE_FENCE.fullmatch(bare):
            continue
        opens = is_heading(bare) or (section is Section.PROGRESS and is_heading(bare, bullet=""))
        yield Line.of(section, span(bare) if opens else bare)
