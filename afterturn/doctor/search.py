"""Whether the search index can be trusted."""

from __future__ import annotations

from functools import partial

from afterturn.doctor.finding import Finding, within
from afterturn.render.words import count, share
from storage import search
from storage.engine import Database
from storage.errors import StorageError
from storage.search import IndexHealth

SEARCH = "search index"
SECONDS = 20.0
"""Longest wait for the whole check, of which reading the index takes a tenth at most."""

MANY_WAITING = 5_000
"""Rows that wait for the index: more than what comes in between two rounds of indexing."""

_REINDEX = "run `afterturn db reindex`; searches and turns go on meanwhile"


def check_search(database: Database) -> Finding:
    """What the index says for messages of all ages, and whether it is kept up."""
    try:
        health = within(SECONDS, partial(search.check, database))
    except (StorageError, TimeoutError) as error:
        return Finding.fail(SEARCH, f"cannot be checked: {error}", "look at the database first")
    return _judged(health)


def _judged(health: IndexHealth) -> Finding:
    if health.fault is not None:
        return Finding.fail(SEARCH, f"broken: {health.fault}", _REINDEX)
    if health.outdated:
        return Finding.warn(SEARCH, "made by another version's rules", _REINDEX)
    if health.waiting > MANY_WAITING:
        return Finding.warn(
            SEARCH,
            f"{count(health.waiting, 'message')} wait to be indexed",
            "start a worker (`afterturn up`), or run `afterturn db reindex`",
        )
    if not health.exists:
        return Finding.ok(SEARCH, f"not made yet, {count(health.waiting, 'message')} waiting")
    if not health.has_pieces:
        return Finding.warn(
            SEARCH,
            f"{_state(health)}; pieces of words are looked for among the newest messages alone",
            "install PostgreSQL's extension pg_trgm in the database, then `afterturn db reindex`",
        )
    return Finding.ok(SEARCH, _state(health))


def _state(health: IndexHealth) -> str:
    parts = [count(health.documents, "document")]
    if health.waiting:
        parts.append(f"{health.waiting:,} waiting")
    if health.building is not None:
        parts.append(f"a new one is {share(health.building)} built")
    if not health.read_whole:
        parts.append("too large to be read whole in this check")
    return ", ".join(parts)
