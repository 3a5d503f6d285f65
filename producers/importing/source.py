"""A session as it is stored elsewhere, and what happens to each of its rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum, auto
from typing import Any

from storage.conversations.rows import Origin
from storage.errors import AfterturnError

MAX_NAMED = 200
"""Problems that a report names; further ones are only counted."""


class ImportRefused(AfterturnError, ValueError):
    """A file cannot be imported, or not any further. What was imported stays; correct the file.

    The message names file, place and problem, and holds no text of a conversation.
    """


class State(Enum):
    """What a row is there. Live: sent to the model. Archived: a summary covers it."""

    LIVE = auto()
    ARCHIVED = auto()


@dataclass(frozen=True, slots=True)
class SourceRow:
    """A message, each original once. `number` is its place there, `at` when it was written, in
    milliseconds since 1970 (UTC)."""

    number: int
    message: Mapping[str, Any]
    state: State = State.LIVE
    origin: Origin | None = None
    at: int | None = None


@dataclass(frozen=True, slots=True)
class SourceSummary:
    """A summary that is shown there, without its frame; it stands before the row at `before` (an
    index into the session's rows)."""

    text: str
    before: int


@dataclass(frozen=True, slots=True)
class SourceSession:
    """A session. `place` names it within its file for people; times are in milliseconds since 1970
    (UTC). `left_out` counts the rows of the source that are not among `rows` and `summaries`, by
    the name of the reason."""

    id: str
    place: str
    rows: tuple[SourceRow, ...]
    summaries: tuple[SourceSummary, ...] = ()
    system_prompt: str | None = None
    source: str | None = None
    title: str | None = None
    model: str | None = None
    chat_id: str | None = None
    thread_id: str = ""
    started_at: int | None = None
    active_at: int | None = None
    ended_at: int | None = None
    left_out: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BadRow:
    """Something that is no message or no session: where it stands, and what is wrong with it,
    without its text. `rows` is how many rows of the source it is."""

    place: str
    problem: str
    rows: int = 1


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
        """Count rows with what became of them."""
        if rows:
            self.fates[fate] += rows

    def name(self, place: str, problem: str) -> None:
        """Note a problem, or only count it where too many are noted."""
        if len(self.problems) < MAX_NAMED:
            self.problems.append(Problem(place, problem))
        else:
            self.unnamed += 1

    @property
    def unaccounted(self) -> int:
        """Rows without a fate: 0, or there is a fault in the import."""
        return self.read - sum(self.fates.values())
