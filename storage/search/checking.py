"""Checks whether the index can be trusted: searches it for known messages, and reads all of it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select
from sqlalchemy import text as sql

from storage.engine import Database
from storage.errors import DatabaseUnavailable
from storage.models import Message, SearchPending
from storage.search import generations
from storage.search.documents import Place, documents_of, read_stored
from storage.search.generations import Generation, GenerationState, Index, is_index_fault
from storage.search.indexing import note_fault, pending

SAMPLE = 24
"""Messages of all ages that the index must find."""

_STEPS = 100_000
"""Instructions of SQLite between two checks of the clock."""


@dataclass(frozen=True, slots=True)
class IndexHealth:
    """The result of a check. `fault` says what is wrong, None where nothing is; it has no text of
    conversations. `waiting` rows are not indexed yet, `building` is the progress of a rebuild, from
    0 to 1. `has_pieces` says that an index finds pieces of words, `read_whole` that there was time
    to read all of the index."""

    exists: bool
    fault: str | None
    outdated: bool
    waiting: int
    building: float | None
    documents: int
    has_pieces: bool
    read_whole: bool


def check(database: Database, *, seconds: float = 2.0) -> IndexHealth:
    """Search the index for messages of all ages, and read all of it where that takes no longer.

    On SQLite no other process can write for that time. A fault is recorded, so that searches do
    without the index until it is rebuilt. Raises `DatabaseUnavailable` where the database itself
    fails.
    """
    with database.read() as connection:
        all_ = generations.read_generations(connection)
        waiting = pending(connection)
        missing_trigger = not generations.are_there(connection)
    building = next((one for one in all_ if one.state is GenerationState.BUILDING), None)
    searched = next((one for one in all_ if one.state is not GenerationState.BUILDING), None)
    fault, documents, has_pieces, whole = None, 0, True, True
    if searched is not None:
        fault = "a search of it failed" if searched.state is GenerationState.BROKEN else None
        try:
            if fault is None:
                fault, documents, has_pieces = _ask(database, searched)
            if fault is None:
                fault, whole = _read_whole(database, searched, seconds)
        except DatabaseUnavailable as error:
            if not is_index_fault(error):
                raise
            fault = f"it cannot be read ({type(getattr(error.__cause__, 'orig', error)).__name__})"
        if fault is not None:
            note_fault(database, searched.number)
    if missing_trigger:
        fault = "the triggers that note new messages for it are gone"
    return IndexHealth(
        exists=searched is not None,
        fault=fault,
        outdated=searched is not None and searched.is_outdated,
        waiting=waiting,
        building=None if building is None else building.done / max(1, building.upto),
        documents=documents,
        has_pieces=has_pieces,
        read_whole=whole,
    )


def _ask(database: Database, generation: Generation) -> tuple[str | None, int, bool]:
    with database.read() as connection:
        index = generation.index(connection)
        for stored in read_stored(connection, _sample(connection)):
            for document in documents_of(stored):
                term = max((word.term for word in document.words), key=len)
                if index.missing_from(connection, document.number):
                    return "it lacks messages that were indexed", 0, index.has_pieces
                if not index.holds(connection, document.number, term):
                    return "it does not find messages by their words", 0, index.has_pieces
        return None, index.count(connection), index.has_pieces


def _sample(connection: Connection) -> list[Place]:
    """Return messages from the oldest to the newest that do not wait to be indexed."""
    newest, _ = generations.newest_rows(connection)
    ids = []
    for at in range(SAMPLE):
        after = newest * at // SAMPLE
        found = connection.execute(
            select(Message.id)
            .where(Message.id >= after, Message.kind == "message")
            .order_by(Message.id)
            .limit(1)
        ).scalar_one_or_none()
        if found is not None:
            ids.append(found)
    waiting = connection.execute(
        select(SearchPending.number).where(SearchPending.number.in_(ids))
    ).scalars()
    return [Place(one) for one in sorted(set(ids) - set(waiting))]


def _read_whole(
    database: Database, generation: Generation, seconds: float
) -> tuple[str | None, bool]:
    if database.dialect == "postgresql":
        with database.read() as connection:
            return _invalid(connection, generation.index(connection)), True
    with database.bare() as connection, _deadline(connection, seconds) as over:
        try:
            generation.index(connection).verify(connection)
        except Exception:
            if over():
                return None, False
            raise
    return None, True


def _invalid(connection: Connection, index: Index) -> str | None:
    tables = [getattr(index, "table", "")]
    found = connection.execute(
        sql(
            "SELECT 1 FROM pg_index WHERE indrelid = CAST(CAST(:table AS text) AS regclass)"
            " AND NOT (indisvalid AND indisready) LIMIT 1"
        ),
        {"table": tables[0]},
    )
    return None if found.first() is None else "one of its indexes is not valid"


@contextmanager
def _deadline(connection: Connection, seconds: float) -> Iterator[_Over]:
    """Abort within the block what takes SQLite longer than `seconds`."""
    driver: Any = connection.connection.driver_connection
    over = _Over(time.monotonic() + seconds)
    driver.set_progress_handler(over, _STEPS)
    try:
        yield over
    finally:
        driver.set_progress_handler(None, 0)


class _Over:
    def __init__(self, at: float) -> None:
        self._at = at

    def __call__(self) -> bool:
        return time.monotonic() > self._at
