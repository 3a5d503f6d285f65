"""What a search gives."""

from __future__ import annotations

from dataclasses import dataclass, field

from storage.search.excerpts import Excerpt


@dataclass(frozen=True, slots=True)
class Line:
    """A message around a hit, or of a page that is scrolled through. `text` is what can be
    searched of it; `archived` says that a summary stands for it in the live view."""

    message_id: int
    position: int
    role: str
    at: int
    text: str
    archived: bool


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """The session of a hit."""

    key: int
    owner: str
    id: str
    title: str | None
    source: str
    started_at: int
    active_at: int


@dataclass(frozen=True, slots=True)
class Covering:
    """The live summary that stands for an archived message."""

    summary_id: int
    kind: str
    first_position: int
    last_position: int
    text: str


@dataclass(frozen=True, slots=True)
class Hit:
    """A message or a live summary that answers. `message_id` is None for a summary, `role` then
    `summary`, and `position` that of the last message it covers. `whole` says that it has all that
    was asked for; `score` compares hits of one answer, and no others.

    `window` are up to five messages before and behind, with the hit itself; `opening` and `ending`
    the session's first and last three (ENGINE.md §11).
    """

    session: SessionFacts
    message_id: int | None
    summary_id: int | None
    position: int
    role: str
    at: int
    archived: bool
    whole: bool
    score: float
    excerpt: Excerpt
    covered_by: Covering | None = None
    window: tuple[Line, ...] = ()
    opening: tuple[Line, ...] = ()
    ending: tuple[Line, ...] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """A page of an answer. `next` is the mark of the next page, None at the end.

    `notes` tell in sentences where something may be missing: an index that is broken or far
    behind, or pieces of words that could be looked for among the newest messages alone.
    """

    hits: tuple[Hit, ...]
    next: str | None = None
    notes: tuple[str, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class Scrolled:
    """A piece of a session, in order; `around` is the position that was asked for. `before` and
    `behind` are ids of messages to scroll on from, None at the session's ends."""

    session: SessionFacts
    around: int
    lines: tuple[Line, ...]
    before: int | None
    behind: int | None


@dataclass(frozen=True, slots=True)
class Browsed:
    """A session in a list: its first request, where it has one."""

    session: SessionFacts
    messages: int
    first_request: str | None


@dataclass(frozen=True, slots=True)
class BrowsePage:
    """Sessions, the last active ones first; `next` is the mark of the next page."""

    sessions: tuple[Browsed, ...]
    next: tuple[int, int] | None = None
