"""A structured summary as its sections, told apart and joined without a model."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from workers.summariser.answer_forms import is_blank
from workers.summariser.extractive.condensing import JOINT, Lines
from workers.summariser.headings import Section, outline
from workers.summariser.passages import NOTE
from workers.tokens import estimate_text

_BULLET = "- "
_ITEM = re.compile(r"[-*+]\s+(?=\S)")
_CODE_FENCE = re.compile(r"(?:```|~~~)[\w-]*")
_NUMBER = re.compile(r"(?:\d{1,7}[-–])?(?P<last>\d{1,7})[.)、]\s+(?=\S)")
_HIGHEST = 1_000_000


@dataclass(frozen=True, slots=True)
class Sections:
    """The lines of each section, oldest first, without bullets and numbers.

    The lines of Progress are steps, a joined line as many as it has parts; `dropped` is how many
    earlier ones are not told any more. A step's number is its place among all of them.
    """

    lines: Mapping[Section, tuple[str, ...]] = field(default_factory=dict)
    dropped: int = 0

    @classmethod
    def of(cls, summary: str) -> Sections:
        """Read a summary, its own or anybody's; what stands under no heading is Progress."""
        told: dict[Section, list[str]] = {section: [] for section in Section}
        section = Section.PROGRESS
        for line in outline(summary):
            if line.opens is not None:
                section = line.opens
            elif text := _content(line.text):
                told[section].append(text)
        steps = _steps(told[Section.PROGRESS])
        lines = {section: tuple(texts) for section, texts in told.items()}
        return cls({**lines, Section.PROGRESS: steps.lines}, steps.dropped)

    def __str__(self) -> str:
        return "\n".join(line for section in Section for line in self._written(section))

    @property
    def tokens(self) -> int:
        return estimate_text(str(self))

    @property
    def steps(self) -> Lines:
        return Lines(self.of_section(Section.PROGRESS), self.dropped)

    def of_section(self, section: Section) -> tuple[str, ...]:
        return self.lines.get(section, ())

    def then(self, newer: Sections) -> Sections:
        """Join what was told later. Of equal lines the newest stays, and a step that was taken
        twice is counted twice; the state is that of the later one, if it has any."""
        lines = {
            section: _once((*self.of_section(section), *newer.of_section(section)))
            for section in Section
        }
        if newer.of_section(Section.STATE):
            lines[Section.STATE] = newer.of_section(Section.STATE)
        steps = steps_in(lines[Section.PROGRESS])
        return Sections(lines, self.steps_in_all + newer.steps_in_all - steps)

    @property
    def steps_in_all(self) -> int:
        return self.dropped + steps_in(self.of_section(Section.PROGRESS))

    def each(self, change: Callable[[str], str]) -> Sections:
        """Change every line."""
        lines = {section: tuple(map(change, texts)) for section, texts in self.lines.items()}
        return Sections(lines, self.dropped)

    def _written(self, section: Section) -> Iterator[str]:
        yield section.heading
        if section is Section.PROGRESS:
            yield from _numbered(self.steps)
        else:
            yield from (f"{_BULLET}{line}" for line in self.of_section(section))


def steps_in(lines: tuple[str, ...]) -> int:
    """Count the steps that lines of Progress tell."""
    return sum(line.count(JOINT) + 1 for line in lines)


def _numbered(steps: Lines) -> Iterator[str]:
    """Each line with the numbers of its steps; where none is left, how many there were."""
    if not steps.lines and steps.dropped:
        yield str(steps)
    number = steps.dropped
    for line in steps.lines:
        first, number = number + 1, number + steps_in((line,))
        yield f"{first}. {line}" if first == number else f"{first}-{number}. {line}"


def _steps(told: list[str]) -> Lines:
    """Read numbered lines, so that the number of the last step stays what it is."""
    counted = Lines.of("\n".join(told))
    texts, highest = [], 0
    for line in counted.lines:
        number = _NUMBER.match(line)
        highest = max(highest, int(number["last"])) if number else highest
        texts.append(line[number.end() :] if number else line)
    before = min(highest, _HIGHEST) - steps_in(tuple(texts))
    return Lines(tuple(texts), max(counted.dropped, before))


def _content(line: str) -> str:
    """The text of a line that tells something, else nothing."""
    text = " ".join(NOTE.sub(" ", line).split())
    if is_blank(text) or _CODE_FENCE.fullmatch(text):
        return ""
    item = _ITEM.match(text)
    return text[item.end() :] if item else text


def _once(lines: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(reversed(dict.fromkeys(reversed(lines))))
