"""Make the index anew while everything goes on, and put it in the place of the old one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from storage.engine import Database
from storage.errors import StorageError
from storage.models import Message, Summary
from storage.search import generations, triggers
from storage.search.documents import Place, documents_of, read_stored
from storage.search.generations import Generation, Standing

PAGE = 500
"""Rows that one transaction indexes."""


class RebuildOvertaken(StorageError):
    """Somebody else began a rebuild meanwhile, so this one was given up. Let that one end."""


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What was indexed anew."""

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
    read outside of the transaction that writes it. `progress` is told how many of how many rows
    are done. What a rebuild that was cut off has left is removed by the next. Raises
    `RebuildOvertaken`.
    """
    with database.write() as connection:
        triggers.make_again(connection)
        begun = generations.begin(connection, database, standing=Standing.BUILDING)
    # Whoever indexes a row from now on knows of this index. So it has to be filled with what there
    # is by now, and no more, or a busy database would keep it building for ever.
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
    def __init__(self, total: int, tell: Callable[[int, int], None] | None) -> None:
        self._total = total
        self._tell = tell
        self._rows = 0

    def more(self, rows: int) -> None:
        self._rows += rows
        if self._tell is not None:
            self._tell(self._rows, max(self._total, self._rows))


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
