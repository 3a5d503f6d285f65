"""Results of a search."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from hashlib import blake2b

from storage.errors import StorageError
from storage.search.matching import Excerpt


@dataclass(frozen=True, slots=True)
class Line:
    """A message around a hit, or of a page that is scrolled through. `text` is its searchable text;
    `archived` says that a summary stands for it in the live view."""

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
    was searched for; `score` compares hits of one answer, and no others.

    `window` has up to five messages before and after, with the hit itself; `opening` and `ending`
    the session's first and last three.
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

    `notes` say in sentences where something may be missing: an index that is broken or far behind,
    or pieces of words that could be searched in the newest messages alone.
    """

    hits: tuple[Hit, ...]
    next: str | None = None
    notes: tuple[str, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class Scrolled:
    """A piece of a session, in order; `around` is the requested position. `before` and `behind` are
    ids of messages to scroll on from, None at the session's ends."""

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


Rank = tuple[int, int, int, int]
"""Sort key of a hit: block, tier, minus its score in ten thousandths, minus its number."""


class SearchMarkError(StorageError):
    """The mark of a page does not belong to this question: pass on what the last page ended on,
    together with the same query and filters."""

    def __init__(self) -> None:
        super().__init__(
            "the mark of the page belongs to no page of this search; pass on what the last page "
            "ended on, with the same query and the same filters"
        )


@dataclass(frozen=True, slots=True)
class Mark:
    """The end of a page. `newest` are the newest message's and summary's ids at the first page,
    `counts` how many documents each clause had, `last` the last hit's rank."""

    newest: tuple[int, int]
    counts: tuple[int, ...]
    last: Rank


def write_mark(mark: Mark, question: str) -> str:
    """Return the mark as text."""
    values = [_digest(question), *mark.newest, *mark.last, *mark.counts]
    return base64.urlsafe_b64encode(json.dumps(values, separators=(",", ":")).encode()).decode()


def read_mark(text: str, question: str) -> Mark:
    """Parse a mark; raises `SearchMarkError`."""
    try:
        values = json.loads(base64.b64decode(text.encode(), altchars=b"-_", validate=True))
        digest, message, summary, block, tier, score, number, *counts = values
        numbers = (message, summary, block, tier, score, number, *counts)
        valid = digest == _digest(question) and all(
            type(one) is int and abs(one) < 1 << 62 for one in numbers
        )
    except (ValueError, TypeError, RecursionError):
        raise SearchMarkError from None
    if not valid:
        raise SearchMarkError
    return Mark((message, summary), tuple(counts), (block, tier, score, number))


def _digest(question: str) -> str:
    return blake2b(question.encode(errors="surrogatepass"), digest_size=6).hexdigest()
