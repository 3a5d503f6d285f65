"""A session as it stands elsewhere, whatever the file was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from storage.rows import Origin


class State(Enum):
    """What a row is there. Live: sent to the model. Archived: a summary stands in its place."""

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
