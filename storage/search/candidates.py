"""Which documents may answer, from the index and from what is not indexed yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection
from sqlalchemy import text as sql

from storage.search.clauses import Clause
from storage.search.documents import Place, number_of
from storage.search.generations import Index
from storage.search.query import Operand
from storage.search.row_filter import filter_values, message_filter, summary_filter
from storage.search.scope import Scope

MOST_IN_LIST = 400
"""Documents of a list: enough that a rare word's is whole, and every list is read in milliseconds
whatever the archive's size."""

MOST_PENDING = 500
"""Rows that a search reads as they stand because they are not indexed yet."""

MOST_SCANNED = 5_000
"""Rows that are read where there is no index to ask: the newest."""

MOST_WITH_PIECE = 100


@dataclass(slots=True)
class Candidate:
    """What the index says of a document."""

    operands: set[Operand] = field(default_factory=set)
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Unindexed:
    """Rows that are read as they stand; `more` says that there are others that were not."""

    places: tuple[Place, ...]
    more: bool


def from_index(
    connection: Connection,
    index: Index,
    clauses: Sequence[Clause],
    scope: Scope,
    *,
    newest: tuple[int, int],
) -> tuple[dict[int, Candidate], tuple[int, ...]]:
    """The documents by number, and how many each clause has, at most `MOST_IN_LIST`."""
    lists = index.find(connection, clauses, scope, newest=newest, limit=MOST_IN_LIST)
    found: dict[int, Candidate] = {}
    for clause, numbers in zip(clauses, lists, strict=True):
        for number in numbers:
            candidate = found.setdefault(number, Candidate())
            candidate.operands.update(clause.known)
            candidate.whole |= clause.whole
    return found, tuple(len(numbers) for numbers in lists)


def not_indexed(connection: Connection, scope: Scope, newest: tuple[int, int]) -> Unindexed:
    """Rows in the scope that wait to be indexed, the newest."""
    return _unindexed(
        connection,
        scope,
        newest,
        "search_pending AS p CROSS JOIN messages AS m",
        "p.number > 0 AND m.id = p.number AND",
        "search_pending AS p CROSS JOIN summaries AS y",
        "p.number < 0 AND y.id = -p.number AND",
        MOST_PENDING,
    )


def everything(connection: Connection, scope: Scope, newest: tuple[int, int]) -> Unindexed:
    """The newest rows in the scope, where there is no index to ask."""
    return _unindexed(
        connection, scope, newest, "messages AS m", "", "summaries AS y", "", MOST_SCANNED
    )


def _unindexed(
    connection: Connection,
    scope: Scope,
    newest: tuple[int, int],
    messages: str,
    message_join: str,
    summaries: str,
    summary_join: str,
    most: int,
) -> Unindexed:
    values = {
        **filter_values(scope),
        "message": newest[0],
        "summary": newest[1],
        "limit": most + 1,
    }
    places: list[Place] = []
    more = False
    for is_summary, wanted, statement in (
        (
            False,
            scope.has_messages,
            f"SELECT m.id FROM {messages} CROSS JOIN sessions AS s"
            f' WHERE {message_join} s."key" = m.session_key AND m.id <= :message'
            f" AND {message_filter(scope)} ORDER BY m.id DESC LIMIT :limit",
        ),
        (
            True,
            scope.has_summaries,
            f"SELECT y.id FROM {summaries} CROSS JOIN sessions AS s"
            f' WHERE {summary_join} s."key" = y.session_key AND y.id <= :summary'
            f" AND {summary_filter(scope)} ORDER BY y.id DESC LIMIT :limit",
        ),
    ):
        if wanted:
            ids = list(connection.execute(sql(statement), values).scalars())
            more |= len(ids) > most
            places += [Place(one, is_summary) for one in ids[:most]]
    return Unindexed(tuple(places), more)


def with_pieces(
    connection: Connection,
    index: Index | None,
    fragments: Sequence[str],
    scope: Scope,
    *,
    newest: tuple[int, int],
) -> tuple[set[int], bool]:
    """Documents that may have one of `fragments` inside of a word, the newest; and whether only
    the newest rows could be looked through, for want of an index of trigrams."""
    numbers: set[int] = set()
    if index is not None and index.has_pieces:
        bounds = (number_of(Place(newest[0] + 1)) - 1, number_of(Place(newest[1] + 1, True)) + 1)
        for fragment in fragments:
            numbers.update(
                index.find_pieces(
                    connection, fragment, scope, newest=bounds, limit=MOST_WITH_PIECE
                )
            )
        return numbers, False
    rows = everything(connection, scope, newest)
    return {number_of(place) for place in rows.places}, rows.more
