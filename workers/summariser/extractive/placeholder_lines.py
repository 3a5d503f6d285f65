"""The lines of a placeholder, and how they are written down."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from workers.summariser.extractive.salience import worth
from workers.summariser.extractive.steps import CALLED, SAID
from workers.summariser.headings import Section

HEADING = (
    "[Placeholder made without a model: the summariser could not be used. The originals "
    "can be searched; a real summary will follow.]"
)
REQUEST = "Last request then (history): "

_BULLET = "- "

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


@dataclass(frozen=True, slots=True)
class Line:
    """One thing told, without the bullet in front of it, and where it stands.

    `telling` is the worth of its text.
    """

    section: Section
    text: str
    telling: int

    @classmethod
    def of(cls, section: Section, text: str) -> Line:
        return cls(section, text, worth(text))

    @property
    def is_request(self) -> bool:
        return self.section is Section.STATE and self.text.startswith(REQUEST)

    @property
    def is_step(self) -> bool:
        return self.section in (Section.PROGRESS, Section.STATE) and not self.is_request

    @property
    def worth(self) -> int:
        """What keeping it is worth: the same in every round, so nothing fades by being old."""
        return self.telling + _BONUS[self.section]

    def __str__(self) -> str:
        return self.text if self.text.startswith((SAID, CALLED)) else f"{_BULLET}{self.text}"


def written(lines: Iterable[Line]) -> str:
    """Write lines under the headings of their sections; those of one section keep their order.

    HEADING comes first. Sections without a line are left out.
    """
    told: dict[Section, list[str]] = {section: [] for section in Section}
    for line in lines:
        told[line.section].append(str(line))
    filled = {section: texts for section, texts in told.items() if texts}
    return "\n".join([HEADING, *("\n".join([s.heading, *texts]) for s, texts in filled.items())])
