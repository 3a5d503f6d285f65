"""Candidates: documents that may answer, from the index and from rows that are not indexed yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection, bindparam, select
from sqlalchemy import text as sql

from storage.models import SearchPending
from storage.search.documents import Place, number_of
from storage.search.generations import Index
from storage.search.query import Clause, Operand
from storage.search.scope import Scope, filter_values, message_filter, summary_filter

MOST_IN_LIST = 400
"""Documents of a list: enough that a rare word's is complete, and every list is read in
milliseconds, however large the archive is."""

MOST_PENDING = 500
"""Rows that a search reads as they are because they are not indexed yet."""

MOST_WAITING = 2_000
"""Rows of all owners among which those of the scope are searched."""

MOST_SCANNED = 5_000
"""Rows that are read where there is no usable index: the newest."""

MOST_WITH_PIECE = 100

_P = SearchPending
_NEWEST = (
    "SELECT {row}.id FROM {table}"
    ' JOIN sessions AS s ON s."key" = {row}.session_key'
    " WHERE {row}.id <= :last AND {condition}{among} ORDER BY {row}.id DESC LIMIT :limit"
)
_AMONG = " AND {row}.id IN :own"


@dataclass(slots=True)
class Candidate:
    """The index's findings about a document."""

    operands: set[Operand] = field(default_factory=set)
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Unindexed:
    """Rows that are read as they are; `more` says that further ones were left out."""

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
    """Return the documents by number, and how many each clause has, at most `MOST_IN_LIST`."""
    lists = index.find(connection, clauses, scope, newest=newest, limit=MOST_IN_LIST)
    found: dict[int, Candidate] = {}
    for clause, numbers in zip(clauses, lists, strict=True):
        for number in numbers:
            candidate = found.setdefault(number, Candidate())
            candidate.operands.update(clause.known)
            candidate.whole |= clause.whole
    return found, tuple(len(numbers) for numbers in lists)


def not_indexed(connection: Connection, scope: Scope, newest: tuple[int, int]) -> Unindexed:
    """Return the newest rows in the scope that wait to be indexed."""
    waiting = [
        *connection.execute(
            select(_P.number).where(_P.number > 0).order_by(_P.number.desc()).limit(MOST_WAITING)
        ).scalars(),
        *connection.execute(
            select(_P.number).where(_P.number < 0).order_by(_P.number).limit(MOST_WAITING)
        ).scalars(),
    ]
    if not waiting:
        return Unindexed((), more=False)
    rows = _newest(connection, scope, newest, most=MOST_PENDING, among=waiting)
    return Unindexed(rows.places, rows.more or len(waiting) >= MOST_WAITING)


def everything(connection: Connection, scope: Scope, newest: tuple[int, int]) -> Unindexed:
    """Return the newest rows in the scope, where there is no usable index."""
    return _newest(connection, scope, newest, most=MOST_SCANNED, among=None)


def _newest(
    connection: Connection,
    scope: Scope,
    newest: tuple[int, int],
    *,
    most: int,
    among: Sequence[int] | None,
) -> Unindexed:
    places: list[Place] = []
    more = False
    for is_summary, wanted, table, condition, last in (
        (False, scope.has_messages, "messages AS m", message_filter(scope), newest[0]),
        (True, scope.has_summaries, "summaries AS y", summary_filter(scope), newest[1]),
    ):
        row = table[-1]
        own = [abs(number) for number in among or () if (number < 0) is is_summary]
        if not wanted or (among is not None and not own):
            continue
        values = {**filter_values(scope), "last": last, "limit": most + 1}
        query = sql(
            _NEWEST.format(
                row=row,
                table=table,
                condition=condition,
                among="" if among is None else _AMONG.format(row=row),
            )
        )
        if among is not None:
            query = query.bindparams(bindparam("own", expanding=True))
            values["own"] = own
        ids = list(connection.execute(query, values).scalars())
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
    """Return the newest documents that may have one of `fragments` inside of a word; and whether
    only the newest rows could be searched, because there is no index of trigrams."""
    numbers: set[int] = set()
    if index is not None and index.has_pieces:
        bounds = (number_of(Place(newest[0] + 1)) - 1, number_of(Place(newest[1] + 1, True)) + 1)
        for fragment in fragments:
            numbers.update(
                index.find_pieces(connection, fragment, scope, newest=bounds, limit=MOST_WITH_PIECE)
            )
        return numbers, False
    rows = everything(connection, scope, newest)
    return {number_of(place) for place in rows.places}, rows.more
