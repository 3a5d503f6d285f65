"""A session as it is stored elsewhere, and the fate of each of its rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum, auto
from typing import Any

from storage.conversations.rows import Origin
from storage.errors import AfterturnError

MAX_NAMED = 200
"""Most problems that a report lists; further ones are only counted."""


class ImportRefused(AfterturnError, ValueError):
    """A file that cannot be imported any further. What was imported stays; correct the file.

    The message names file, place and problem, and contains no text of a conversation.
    """


class State(Enum):
    """The state of a row at its source. Live: sent to the model. Archived: covered by a summary."""

    LIVE = auto()
    ARCHIVED = auto()


@dataclass(frozen=True, slots=True)
class SourceRow:
    """An original message of the source.

    `number` is its place there, `at` its time in milliseconds since 1970 (UTC).
    """

    number: int
    message: Mapping[str, Any]
    state: State = State.LIVE
    origin: Origin | None = None
    at: int | None = None


@dataclass(frozen=True, slots=True)
class SourceSummary:
    """A summary that the source shows, without its frame.

    It is before the row at `before`, an index into the session's rows.
    """

    text: str
    before: int


@dataclass(frozen=True, slots=True)
class SourceSession:
    """A session of the source.

    `place` names it within its file for people; times are in milliseconds since 1970 (UTC).
    `left_out` counts the rows of the source that are not among `rows` and `summaries`, by reason.
    """

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
    """A part of the source that is not a message or session.

    `problem` contains none of its text; `rows` counts the rows of the source.
    """

    place: str
    problem: str
    rows: int = 1


class Fate(StrEnum):
    """The fate of a row of the source."""

    LIVE = "live"
    """Stored, and in the live view."""
    ARCHIVED = "archived"
    """Stored as archived: an imported summary is shown instead."""
    UNARCHIVED = "archived_without_summary"
    """Archived at the source, but covered by no summary: stored, and in the live view."""
    SUMMARY = "summary"
    """Stored as a summary."""
    OLD_SUMMARY = "superseded_summary"
    """Left out: a summary that a newer one has replaced."""
    SYSTEM_PROMPT = "system_prompt"
    """Stored as the session's system prompt."""
    COPY = "copy"
    """Left out: a copy of a stored row, as each compaction of Hermes Agent writes."""
    REWOUND = "rewound"
    """Left out: taken back by its user."""
    KNOWN = "known"
    """Stored by an earlier import."""
    BAD = "bad"
    """Skipped on request and reported: not a message."""
    REFUSED = "of_refused_session"
    """Reported: part of a session that could not be imported."""


@dataclass(frozen=True, slots=True)
class ImportProblem:
    """A skipped part of the source: its place, and the reason, without its text."""

    place: str
    problem: str


@dataclass(slots=True)
class Account:
    """The counts of a running import. `read` counts rows of the source; each has one fate."""

    read: int = 0
    fates: Counter[Fate] = field(default_factory=Counter)
    sessions: Counter[str] = field(default_factory=Counter)
    problems: list[ImportProblem] = field(default_factory=list)
    unnamed: int = 0
    tokens: int = 0

    def count(self, fate: Fate, rows: int = 1) -> None:
        """Count rows by their fate."""
        if rows:
            self.fates[fate] += rows

    def name(self, place: str, problem: str) -> None:
        """Record a problem, or only count it where too many are recorded."""
        if len(self.problems) < MAX_NAMED:
            self.problems.append(ImportProblem(place, problem))
        else:
            self.unnamed += 1

    @property
    def unaccounted(self) -> int:
        """Rows without a fate: 0 unless the import is faulty."""
        return self.read - sum(self.fates.values())
