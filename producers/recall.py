"""Search of an owner's sessions: one call in three forms, with results of a bounded size."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from producers.arguments import RequestError, check_whole
from storage import search
from storage.conversations import sessions
from storage.engine import Database
from storage.errors import SessionNotFound
from storage.search import Found, Hit, Line, Scope, SessionFacts

MOST_HITS = 10
MOST_SESSIONS = 50
MOST_WINDOW = 20
LEAST_CHARACTERS = 10_000
"""Room for a single hit with names of any length, and for the longest part of a session."""

MOST_CHARACTERS = 1_000_000

_CUTS = ((1_500, 400, 200), (800, 200, 120), (400, 100, 60), (200, 0, 0))
"""Characters of the message itself, of those around it, and of the session's ends. A result that is
too large is cut step by step; lines of 0 characters are left out."""

_CATCH_UP_ROWS = 5_000
"""Most rows that a search itself indexes where no worker does."""

SESSION_SEARCH_TOOL: Final[Mapping[str, Any]] = {
    "type": "function",
    "function": {
        "name": "session_search",
        "description": "Search everything that was said in past and present conversations with "
        "this user, also what was compacted away. With query: messages that answer, best first; "
        'words (any of them), "phrases", AND, OR, NOT, prefix*. With session_id and '
        "around_message_id: the messages around one. With nothing: the latest conversations.",
        "parameters": {
            "type": "object",
            "properties": {
                "query": {"type": "string"},
                "session_id": {"type": "string", "description": "Only this conversation."},
                "around_message_id": {"type": "integer"},
                "window": {"type": "integer", "minimum": 1, "maximum": MOST_WINDOW},
                "limit": {"type": "integer", "minimum": 1, "maximum": MOST_HITS},
                "page": {"type": "string", "description": "next of the answer before."},
                "roles": {
                    "type": "array",
                    "items": {"type": "string", "enum": list(search.ROLES)},
                },
                "source": {"type": "string"},
                "since": {"type": "string", "description": "ISO 8601 date or time, UTC."},
                "until": {"type": "string", "description": "ISO 8601 date or time, UTC."},
            },
            "additionalProperties": False,
        },
    },
}
"""The tool as a model sees it, for the `tools` of a chat request. Pass the model's arguments on as
`gateway.search(**arguments)`."""


@dataclass(frozen=True, slots=True)
class Recall:
    """A search: `query`, or `session_id` with `around_message_id`, or neither.

    A query with a `session_id` searches that session. `limit` is the number of hits or sessions on
    a page, `page` the `next` of the previous result, `window` the number of messages on either side
    of the one at `around_message_id`. `roles` are some of `user`, `assistant`, `tool`, `system` and
    `summary`; `since` and `until` are ISO 8601 times, UTC by default, the latter exclusive. The
    JSON of the result has at most `most_characters`.
    """

    query: str | None = None
    session_id: str | None = None
    around_message_id: int | None = None
    window: int = 5
    limit: int = 3
    page: str | None = None
    roles: Sequence[str] | None = None
    source: str | None = None
    since: str | None = None
    until: str | None = None
    most_characters: int = 20_000

    @classmethod
    def of(cls, **asked: Any) -> Recall:
        """Check the arguments of a call, which a model may have made up. Raises `RequestError`."""
        for name in asked:
            if name not in inspect.signature(cls).parameters:
                raise RequestError(name, "is no argument of a search")
        for name in ("query", "session_id", "page", "source", "since", "until"):
            value = asked.get(name)
            if value is not None and not isinstance(value, str):
                raise RequestError(name, f"is a {type(value).__name__}, must be text")
        recall = cls(**asked)
        check_whole("limit", recall.limit, least=1, most=MOST_SESSIONS)
        check_whole("window", recall.window, least=1, most=MOST_WINDOW)
        check_whole(
            "most_characters", recall.most_characters, least=LEAST_CHARACTERS, most=MOST_CHARACTERS
        )
        if recall.around_message_id is not None:
            check_whole("around_message_id", recall.around_message_id, most=2**53)
            if recall.session_id is None:
                raise RequestError("around_message_id", "needs the session_id beside it")
        elif recall.session_id is not None and recall.query is None:
            raise RequestError("session_id", "needs a query or an around_message_id beside it")
        return recall


def answer(database: Database, owner: str, asked: Recall) -> dict[str, Any]:
    """Answer a search of the owner's sessions, as values for JSON."""
    if asked.around_message_id is not None:
        return _scrolled(database, owner, asked)
    if asked.query is not None:
        return _discovered(database, owner, asked)
    return _browsed(database, owner, asked)


def discover_caught_up(
    database: Database, query: str, scope: Scope, *, limit: int, after: str | None = None
) -> Found:
    """Search like `search.discover`, after indexing pending rows if they are too many to read."""
    found = search.discover(database, query, scope, limit=limit, after=after)
    if search.is_behind(found) and search.index_pending(database, most=_CATCH_UP_ROWS).rows:
        return search.discover(database, query, scope, limit=limit, after=after)
    return found


def read_time(field: str, text: str | None) -> int | None:
    """Read an ISO 8601 date or time as milliseconds since 1970. Raises `RequestError`."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return int(moment.timestamp() * 1000)
    except (ValueError, OverflowError):
        raise RequestError(
            field, "is no date or time of ISO 8601, such as 2026-11-30 or 2026-11-30T12:00:00Z"
        ) from None


def check_roles(roles: object) -> tuple[str, ...] | None:
    """Check the roles that are searched; None is all of them. Raises `RequestError`."""
    if roles is None:
        return None
    if isinstance(roles, str) or not isinstance(roles, Sequence):
        raise RequestError("roles", f"is a {type(roles).__name__}, must be a list of roles")
    for role in roles:
        if role not in search.ROLES:
            raise RequestError("roles", f"knows {', '.join(search.ROLES)}, not {str(role)[:40]!r}")
    return tuple(roles)


def _scope(database: Database, owner: str, asked: Recall) -> Scope:
    key = None
    if asked.session_id is not None:
        with database.read() as connection:
            found = sessions.find(connection, owner=owner, session_id=asked.session_id)
        if found is None:
            raise SessionNotFound(asked.session_id, owner)
        key = found.key
    return Scope(
        owner,
        source=asked.source,
        roles=check_roles(asked.roles),
        session=key,
        since=read_time("since", asked.since),
        until=read_time("until", asked.until),
    )


def _discovered(database: Database, owner: str, asked: Recall) -> dict[str, Any]:
    scope = _scope(database, owner, asked)
    limit = check_whole("limit", asked.limit, least=1, most=MOST_HITS)
    while True:
        found = discover_caught_up(
            database, asked.query or "", scope, limit=limit, after=asked.page
        )
        for own, around, ends in _CUTS:
            document = {
                "form": "discover",
                "hits": [_hit(hit, own, around, ends) for hit in found.hits],
                "next": found.next,
                "notes": list(found.notes),
            }
            if _fits(document, asked):
                return document
        if limit == 1:
            # Names alone fill the room; the place of the hit matters most.
            return {**document, "hits": [_bare(hit) for hit in found.hits]}
        limit = max(1, len(found.hits) // 2)


def _scrolled(database: Database, owner: str, asked: Recall) -> dict[str, Any]:
    page = search.scroll(
        database,
        owner=owner,
        session_id=asked.session_id or "",
        message_id=asked.around_message_id or 0,
        window=asked.window,
    )
    if page is None:
        _scope(database, owner, asked)
        raise RequestError("around_message_id", "names no message of that session")
    size = 4_000
    while True:
        document = {
            "form": "scroll",
            "session": _session(page.session),
            "messages": [_line(line, size) for line in page.lines],
            "before": page.before,
            "behind": page.behind,
        }
        if size < 20 or _fits(document, asked):
            return document
        size //= 2


def _browsed(database: Database, owner: str, asked: Recall) -> dict[str, Any]:
    page = search.browse(
        database,
        _scope(database, owner, asked),
        limit=asked.limit,
        after=read_place(asked.page),
    )
    size, shown = 200, list(page.sessions)
    following = page.next
    while True:
        document = {
            "form": "browse",
            "sessions": [
                {
                    **_session(one.session),
                    "messages": one.messages,
                    "first_request": _cut(one.first_request or "", size),
                }
                for one in shown
            ],
            "next": None if following is None else f"{following[0]}-{following[1]}",
        }
        if _fits(document, asked):
            return document
        if size:
            size //= 2
            continue
        shown = shown[: len(shown) // 2]
        following = shown[-1].session.active_at, shown[-1].session.key


def read_place(page: str | None) -> tuple[int, int] | None:
    """Read the mark of a page of sessions. Raises `RequestError`."""
    if page is None:
        return None
    try:
        active_at, key = (int(part) for part in page.split("-"))
    except ValueError:
        raise RequestError("page", "is not the next of an answer before") from None
    return active_at, key


def _hit(hit: Hit, own: int, around: int, ends: int) -> dict[str, Any]:
    document = {**_bare(hit), "excerpt": hit.excerpt.marked(">>>", "<<<")}
    if hit.covered_by is not None:
        document["covered_by"] = {
            "summary_id": hit.covered_by.summary_id,
            "kind": hit.covered_by.kind,
            "text": _cut(hit.covered_by.text, around),
        }
    if around:
        document["window"] = [
            _line(line, own if line.message_id == hit.message_id else around) for line in hit.window
        ]
    if ends:
        document["opening"] = [_line(line, ends) for line in hit.opening]
        document["ending"] = [_line(line, ends) for line in hit.ending]
    return document


def _bare(hit: Hit) -> dict[str, Any]:
    return {
        "session": _session(hit.session),
        "message_id": hit.message_id,
        "summary_id": hit.summary_id,
        "position": hit.position,
        "role": hit.role,
        "at": _time(hit.at),
        "archived": hit.archived,
        "all_words": hit.whole,
    }


def _session(facts: SessionFacts) -> dict[str, Any]:
    return {
        "id": facts.id,
        "title": facts.title,
        "source": facts.source,
        "started_at": _time(facts.started_at),
        "active_at": _time(facts.active_at),
    }


def _line(line: Line, size: int) -> dict[str, Any]:
    return {
        "message_id": line.message_id,
        "position": line.position,
        "role": line.role,
        "at": _time(line.at),
        "text": _cut(line.text, size),
    }


def _cut(text: str, size: int) -> str:
    return text if len(text) <= size else f"{text[:size]}…"


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="seconds")


def _fits(document: Mapping[str, Any], asked: Recall) -> bool:
    return len(json.dumps(document, ensure_ascii=False)) <= asked.most_characters
