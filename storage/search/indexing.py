"""Put into the index what was stored since: deferred, so that no turn waits for it.

The database notes every new row itself (a trigger writes its number into `search_pending`, nothing
more), so rows are noted whoever writes them, and a broken index never fails a write (F218). What is
noted and not indexed yet, every search reads as it stands, so nothing is found late.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, delete, func, select

from storage.engine import Database
from storage.errors import DatabaseUnavailable
from storage.models import SearchPending
from storage.search import generations
from storage.search.documents import Document, Place, documents_of, read_stored
from storage.search.faults import is_index_fault
from storage.search.generations import Standing

BATCH = 200
"""Rows that one transaction indexes: on SQLite every turn waits while it writes."""


@dataclass(frozen=True, slots=True)
class Indexed:
    """How many rows were indexed, and whether more wait."""

    rows: int
    more: bool


def index_pending(database: Database, *, most: int = 10_000, batch: int = BATCH) -> Indexed:
    """Index up to `most` rows that wait for it, the newest first, in short transactions.

    May run anywhere at any time, also twice. An index that fails is noted as broken, and the rows
    wait. Raises `DatabaseUnavailable` where it is the database that fails.
    """
    rows = 0
    while rows < most:
        with database.read() as connection:
            waiting = _waiting(connection, min(batch, most - rows))
            documents = {
                stored.place.number: list(documents_of(stored))
                for stored in read_stored(connection, waiting)
            }
        if not waiting:
            return Indexed(rows, more=False)
        if not _write(database, waiting, documents):
            return Indexed(rows, more=True)
        rows += len(waiting)
    with database.read() as connection:
        return Indexed(rows, more=bool(_waiting(connection, 1)))


def pending(connection: Connection) -> int:
    """How many rows wait to be indexed."""
    return connection.execute(select(func.count()).select_from(SearchPending)).scalar_one()


def _waiting(connection: Connection, limit: int) -> list[Place]:
    # Both ends: messages count up from 1, summaries down from -1.
    number = SearchPending.number
    messages = select(number).where(number > 0).order_by(number.desc()).limit(limit)
    summaries = select(number).where(number < 0).order_by(number).limit(limit)
    newest = [*connection.execute(messages).scalars(), *connection.execute(summaries).scalars()]
    return [Place(abs(one), one < 0) for one in newest[:limit]]


def _write(
    database: Database, waiting: Sequence[Place], documents: dict[int, list[Document]]
) -> bool:
    """Write them into every index; False where one turned out to be broken."""
    failing = 0
    try:
        with database.write() as connection:
            there = generations.read_generations(connection, keeping=True)
            if not there:
                there = [generations.first(connection, database)]
            taken = connection.execute(
                delete(SearchPending)
                .where(SearchPending.number.in_([place.number for place in waiting]))
                .returning(SearchPending.number)
            ).scalars()
            new = [document for number in taken for document in documents.get(number, ())]
            for generation in there:
                if generation.standing is not Standing.BROKEN:
                    failing = generation.number
                    generation.index(connection).add(connection, new)
    except DatabaseUnavailable as error:
        if not is_index_fault(error):
            raise
        note_fault(database, failing)
        return False
    return True


def note_fault(database: Database, number: int) -> None:
    """Keep in mind that an index failed, for `afterturn doctor`."""
    with database.write() as connection:
        generations.note_broken(connection, number)
