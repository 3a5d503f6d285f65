"""What became of every row that an import has read."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum

MOST_NAMED = 200
"""Problems that a report names; further ones are only counted."""


class Fate(StrEnum):
    """What became of a row of the source."""

    LIVE = "live"
    """Stored, and in the live view."""
    ARCHIVED = "archived"
    """Stored as archived: an imported summary stands in its place."""
    UNARCHIVED = "archived_without_summary"
    """It was archived there, but no summary shows it: stored, and in the live view."""
    SUMMARY = "summary"
    """Stored as a summary."""
    OLD_SUMMARY = "superseded_summary"
    """A summary that a newer one replaced there, left out."""
    SYSTEM_PROMPT = "system_prompt"
    """Kept as the session's system prompt."""
    COPY = "copy"
    """Another copy of a row that is stored once, as each compaction there writes."""
    REWOUND = "rewound"
    """Taken back by its user there, left out."""
    KNOWN = "known"
    """Stored by an earlier import."""
    BAD = "bad"
    """No message; named, and skipped because that was asked for."""
    REFUSED = "of_refused_session"
    """Of a session that could not be brought in; named."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that was skipped: where it stands, and why, without its text."""

    place: str
    problem: str


@dataclass(slots=True)
class Account:
    """Counts while an import runs. `read` counts rows of the source; each has one fate."""

    read: int = 0
    fates: Counter[Fate] = field(default_factory=Counter)
    sessions: Counter[str] = field(default_factory=Counter)
    problems: list[Problem] = field(default_factory=list)
    unnamed: int = 0
    tokens: int = 0

    def count(self, fate: Fate, rows: int = 1) -> None:
        if rows:
            self.fates[fate] += rows

    def name(self, place: str, problem: str) -> None:
        if len(self.problems) < MOST_NAMED:
            self.problems.append(Problem(place, problem))
        else:
            self.unnamed += 1

    @property
    def unaccounted(self) -> int:
        """Rows without a fate: 0, or there is a fault in the import."""
        return self.read - sum(self.fates.values())
