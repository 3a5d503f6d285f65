"""Index what was stored since: deferred, so that no turn waits for it.

The database notes every new row itself (a trigger writes its number into `search_pending`, nothing
more), whichever process writes it, and a broken index never fails a write. A search reads rows that
are noted but not indexed yet as they are, so nothing is found late.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, delete, func, select

from storage.engine import Database
from storage.errors import DatabaseUnavailable, StorageError
from storage.models import Message, SearchPending, Summary
from storage.search import generations
from storage.search.documents import Document, Place, documents_of, read_stored
from storage.search.generations import Generation, GenerationState, is_index_fault

BATCH = 200
"""Rows that one transaction indexes: on SQLite every turn waits while it writes."""


@dataclass(frozen=True, slots=True)
class Indexed:
    """How many rows were indexed, and whether more wait."""

    rows: int
    more: bool


def index_pending(database: Database, *, most: int = 10_000, batch: int = BATCH) -> Indexed:
    """Index up to `most` rows that wait for it, the newest first, in short transactions.

    May run anywhere at any time, also twice. An index that fails is marked as broken, and the rows
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
    """Return how many rows wait to be indexed."""
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
    """Write documents into every index; False where one turned out to be broken."""
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
                if generation.state is not GenerationState.BROKEN:
                    failing = generation.number
                    generation.index(connection).add(connection, new)
    except DatabaseUnavailable as error:
        if not is_index_fault(error):
            raise
        note_fault(database, failing)
        return False
    return True


def note_fault(database: Database, number: int) -> None:
    """Record that an index failed, for `afterturn doctor`."""
    with database.write() as connection:
        generations.note_broken(connection, number)


PAGE = 500
"""Rows that one transaction indexes."""


class RebuildOvertaken(StorageError):
    """Another process began a rebuild meanwhile, so this one was given up. Let that one end."""


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """The result of a rebuild."""

    generation: int
    messages: int
    summaries: int


def rebuild(
    database: Database,
    *,
    page: int = PAGE,
    progress: Callable[[int, int], None] | None = None,
) -> Rebuilt:
    """Build a new index from the rows and drop the old one, broken or not.

    Turns are stored and searches answered meanwhile, by the old one where it works. Each page is
    read outside of the transaction that writes it. `progress` is called with the number of rows
    that are done and the total. The next rebuild removes what an interrupted one has left. Raises
    `RebuildOvertaken`.
    """
    with database.write() as connection:
        generations.make_again(connection)
        begun = generations.begin(connection, database, state=GenerationState.BUILDING)
    # Rows indexed from now on go into this index, too. So it has to be filled with the present rows
    # and no more, or a busy database would keep it building for ever.
    with database.write() as connection:
        generation, last_summary = generations.bound(connection, begun)
        total = _count(connection)
    done = _Done(total, progress)
    messages = _pages(database, generation, page, done, last=generation.upto, summaries=False)
    summaries = _pages(database, generation, page, done, last=last_summary, summaries=True)
    with database.write() as connection:
        if not generations.note_done(connection, generation, generation.upto):
            raise _overtaken()
        generations.take_over(connection, generation)
    return Rebuilt(generation.number, messages, summaries)


class _Done:
    def __init__(self, total: int, progress: Callable[[int, int], None] | None) -> None:
        self._total = total
        self._progress = progress
        self._rows = 0

    def more(self, rows: int) -> None:
        self._rows += rows
        if self._progress is not None:
            self._progress(self._rows, max(self._total, self._rows))


def _pages(
    database: Database,
    generation: Generation,
    page: int,
    done: _Done,
    *,
    last: int,
    summaries: bool,
) -> int:
    after = rows = 0
    while True:
        with database.read() as connection:
            ids = _ids(connection, after, last, page, summaries=summaries)
            stored = read_stored(connection, [Place(one, summaries) for one in ids])
        if not ids:
            return rows
        documents = [document for one in stored for document in documents_of(one)]
        after = ids[-1]
        with database.write() as connection:
            reached = generation.done if summaries else after
            if not generations.note_done(connection, generation, reached):
                raise _overtaken()
            generation.index(connection).add(connection, documents)
        rows += len(ids)
        done.more(len(ids))


def _ids(
    connection: Connection, after: int, last: int, limit: int, *, summaries: bool
) -> list[int]:
    row = Summary if summaries else Message
    query = select(row.id).where(row.id > after, row.id <= last).order_by(row.id)
    if not summaries:
        query = query.where(Message.kind == "message")
    return list(connection.execute(query.limit(limit)).scalars())


def _count(connection: Connection) -> int:
    messages = connection.execute(
        select(func.count()).select_from(Message).where(Message.kind == "message")
    ).scalar_one()
    return messages + connection.execute(select(func.count()).select_from(Summary)).scalar_one()


def _overtaken() -> RebuildOvertaken:
    return RebuildOvertaken(
        "another rebuild of the search index has begun, and this one was given up; let that one end"
    )
