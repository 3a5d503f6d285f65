"""Searches of tests: what was found, in words that a test can compare."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from storage import search
from storage.engine import Database
from storage.search import Found, Scope
from tests.support.sessions.stored_session import StoredSession

OWNER = "o"
EVERYTHING = 1_000


def find(database: Database, query: str, *, limit: int = EVERYTHING, **filters: Any) -> Found:
    """Search as owner `o`, unless another is given."""
    scope = Scope(**{"owner": OWNER, **filters})
    return search.discover(database, query, scope, limit=limit)


def places(found: Found) -> list[tuple[str, int | str]]:
    """Session and position of every hit, in order; of a summary its role in place of that."""
    return [
        (hit.session.id, hit.position if hit.message_id is not None else hit.role)
        for hit in found.hits
    ]


def positions(database: Database, query: str, **filters: Any) -> list[int | str]:
    """Return where it was found, for tests with one session."""
    return [place for _, place in places(find(database, query, **filters))]


def marked(found: Found) -> list[str]:
    """Return the excerpts with what was found in brackets."""
    return [hit.excerpt.marked("[", "]") for hit in found.hits]


def indexed(database: Database) -> None:
    """Index everything that waits."""
    assert not search.index_pending(database).more


def talk(database: Database, *texts: str, session_id: str = "s", **facts: Any) -> StoredSession:
    """Return a session of such texts, person and agent by turns, indexed."""
    session = StoredSession.create(database, session_id, **facts)
    session.append(said(texts))
    indexed(database)
    return session


def said(texts: Sequence[str]) -> list[dict[str, Any]]:
    """Return the texts as messages of person and agent by turns."""
    return [
        {"role": "assistant" if at % 2 else "user", "content": text}
        for at, text in enumerate(texts)
    ]
