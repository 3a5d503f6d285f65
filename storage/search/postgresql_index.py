"""The index in PostgreSQL: a table with a text-search vector made by us, under a GIN index.

`search_documents_N.words` has terms with their places, written forms that differ after `~`
(prefixes), labels after `@`. Vectors are stored out of line, so a row that a posting names is
cheap to visit. A posting list is always read whole; so every document is labelled with its era,
some ten thousand documents long, and common words are searched in the newest eras first.

Where the server has the extension pg_trgm, pieces of words are found by an index, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from sqlalchemy import Connection
from sqlalchemy import text as sql
from sqlalchemy.exc import DBAPIError

from storage.search.documents import Document, place_of
from storage.search.query import Clause, Operand
from storage.search.scope import Scope, filter_values, message_filter, summary_filter
from storage.types import escape

_ERA_BITS = 15
_SUMMARY = "'@y'"
"""Label of every summary, which are few."""

_ERAS = 2
"""Newest eras that are searched first; two, since the last one may have just begun."""

_TABLE = (
    "CREATE TABLE {table} (number bigint PRIMARY KEY, words tsvector NOT NULL, body text)"
    " WITH (toast_tuple_target = 128)"
)
_INDEX = "CREATE INDEX {table}_words ON {table} USING gin (words)"
_PIECES = "CREATE INDEX {table}_body ON {table} USING gin (body gin_trgm_ops)"
_MERGE = "SELECT gin_clean_pending_list(CAST(CAST(:name AS text) AS regclass))"
# One branch for however many lists are requested: planning one for each takes longer than reading.
# The sums keep the planner from using the number's index, `OFFSET 0` from joining whole tables
# where a few rows are looked up.
_MESSAGES = (
    "SELECT q.at, l.number FROM unnest(CAST(:asked AS text[])) WITH ORDINALITY AS q (asked, at)"
    " CROSS JOIN LATERAL (SELECT d.number FROM (SELECT number FROM {table}"
    " WHERE words @@ CAST(q.asked AS tsquery){more} AND number + 0 BETWEEN 1 AND :last"
    " ORDER BY number + 0 DESC OFFSET 0) AS d"
    " CROSS JOIN LATERAL (SELECT 1 FROM messages AS m"
    " CROSS JOIN LATERAL (SELECT * FROM sessions WHERE key = m.session_key OFFSET 0) AS s"
    " WHERE m.id = (d.number >> 8) AND {filter} OFFSET 0) AS v LIMIT :limit) AS l"
)
_SUMMARIES = (
    "SELECT q.at, l.number FROM unnest(CAST(:asked AS text[])) WITH ORDINALITY AS q (asked, at)"
    " CROSS JOIN LATERAL (SELECT d.number FROM (SELECT number FROM {table}"
    " WHERE words @@ CAST(q.asked AS tsquery){more} AND number + 0 BETWEEN :first AND -1"
    " ORDER BY number + 0 OFFSET 0) AS d"
    " CROSS JOIN LATERAL (SELECT 1 FROM summaries AS y"
    " CROSS JOIN LATERAL (SELECT * FROM sessions WHERE key = y.session_key OFFSET 0) AS s"
    " WHERE y.id = ((-d.number) >> 8) AND {filter} OFFSET 0) AS v LIMIT :limit) AS l"
)
_HAS_PIECE = " AND body LIKE :pattern"


_ADD = (
    "INSERT INTO {table} (number, words, body)"
    " SELECT number, CAST(words AS tsvector), body FROM unnest(CAST(:numbers AS bigint[]),"
    " CAST(:words AS text[]), CAST(:bodies AS text[])) AS new (number, words, body)"
    " ON CONFLICT (number) DO NOTHING"
)
_HOLDS = (
    "SELECT 1 FROM (SELECT number FROM {table} WHERE words @@ CAST(:asked AS tsquery) OFFSET 0)"
    " AS d WHERE d.number = :number"
)
_SETTLE = (
    "DELETE FROM search_pending AS p"
    " WHERE EXISTS (SELECT 1 FROM {table} AS d WHERE d.number = p.number << 8)"
)
_COUNT = "SELECT count(*) FROM {table}"
_GIN = "SELECT relname FROM pg_class WHERE relname = ANY(:names) AND pg_table_is_visible(oid)"
_NUMBER = "SELECT 1 FROM {table} WHERE number = :number"


def has_trigrams(connection: Connection) -> bool:
    """Return whether the extension pg_trgm is installed in the database."""
    found = connection.execute(sql("SELECT 1 FROM pg_extension WHERE extname = 'pg_trgm'"))
    return found.first() is not None


def install_trigrams(connection: Connection) -> bool:
    """Install pg_trgm where the server has it and permits it; return whether it is there now."""
    if has_trigrams(connection):
        return True
    offered = connection.execute(
        sql("SELECT 1 FROM pg_available_extensions WHERE name = 'pg_trgm'")
    )
    if offered.first() is None:
        return False
    try:
        with connection.begin_nested():
            connection.execute(sql("CREATE EXTENSION IF NOT EXISTS pg_trgm"))
    except DBAPIError:
        return False
    return True


class PostgresIndex:
    """One generation of the index."""

    def __init__(self, generation: int, *, has_pieces: bool) -> None:
        self.table = f"search_documents_{generation:d}"
        self.has_pieces = has_pieces

    def create(self, connection: Connection) -> None:
        """Create its table, empty and without indexes; drop one of that name."""
        self.drop(connection)
        connection.exec_driver_sql(_TABLE.format(table=self.table))

    def complete(self, connection: Connection) -> None:
        """Create its indexes: at once for all documents, which is many times quicker."""
        connection.exec_driver_sql(_INDEX.format(table=self.table))
        if self.has_pieces:
            connection.exec_driver_sql(_PIECES.format(table=self.table))

    def drop(self, connection: Connection) -> None:
        """Drop its table, if it exists."""
        connection.exec_driver_sql(f"DROP TABLE IF EXISTS {self.table}")

    def add(self, connection: Connection, documents: Sequence[Document]) -> int:
        """Index what is not indexed yet; return the number of documents passed in."""
        if not documents:
            return 0
        connection.execute(
            sql(_ADD.format(table=self.table)),
            {
                "numbers": [document.number for document in documents],
                "words": [_vector(document) for document in documents],
                "bodies": [
                    escape(document.text.lower()) if self.has_pieces else None
                    for document in documents
                ],
            },
        )
        # A GIN index collects new entries in a list that every search reads from end to end. Merged
        # now, in one go, it is short for all of them.
        names = (f"{self.table}_words", f"{self.table}_body")
        for name in connection.execute(sql(_GIN), {"names": list(names)}).scalars().all():
            connection.execute(sql(_MERGE), {"name": name})
        return len(documents)

    def settle(self, connection: Connection) -> None:
        """Remove from the waiting rows those that are indexed here."""
        connection.exec_driver_sql(_SETTLE.format(table=self.table))

    def find(
        self,
        connection: Connection,
        clauses: Sequence[Clause],
        scope: Scope,
        *,
        newest: tuple[int, int],
        limit: int,
    ) -> list[list[int]]:
        """Return the newest documents of each clause, as `SqliteIndex.find` does."""
        search = partial(self._search, connection, scope=scope, newest=newest, limit=limit)
        asked = dict(enumerate(_asked(clause, scope) for clause in clauses))
        messages: list[list[int]] = [[] for _ in clauses]
        summaries: list[list[int]] = [[] for _ in clauses]
        if scope.has_summaries:
            among = {at: f"{_SUMMARY} & {one}" for at, one in asked.items()}
            search(_SUMMARIES, among, found=summaries)
        if scope.has_messages:
            last_era = place_of(newest[0]).id >> _ERA_BITS
            if last_era >= 2 * _ERAS:
                eras = " | ".join(f"'@e{last_era - back}'" for back in range(_ERAS))
                recent = {at: f"({eras}) & {one}" for at, one in asked.items()}
                search(_MESSAGES, recent, found=messages)
                asked = {at: one for at, one in asked.items() if len(messages[at]) < limit}
                for at in asked:
                    messages[at].clear()
            search(_MESSAGES, asked, found=messages)
        return [[*new, *old] for new, old in zip(messages, summaries, strict=True)]

    def find_pieces(
        self,
        connection: Connection,
        fragment: str,
        scope: Scope,
        *,
        newest: tuple[int, int],
        limit: int,
    ) -> list[int]:
        """Return documents that may have `fragment`, as `SqliteIndex.find_pieces` does."""
        pattern = escape(fragment).replace("\\", "\\\\").replace("%", r"\%").replace("_", r"\_")
        labels = {0: " & ".join(f"'@{one}'" for one in scope.labels)}
        search = partial(
            self._search,
            connection,
            scope=scope,
            newest=newest,
            limit=limit,
            pattern=f"%{pattern}%",
        )
        found: list[list[int]] = [[]]
        if scope.has_messages:
            search(_MESSAGES, labels, found=found)
        if scope.has_summaries:
            search(_SUMMARIES, labels, found=found)
        return found[0]

    def holds(self, connection: Connection, number: int, term: str) -> bool:
        """Return whether the index of words, and no other, finds document `number` by `term`."""
        found = connection.execute(
            sql(_HOLDS.format(table=self.table)),
            {"asked": f"'{term}'", "number": number},
        )
        return found.first() is not None

    def count(self, connection: Connection) -> int:
        """Return how many documents it has."""
        found: int = connection.execute(sql(_COUNT.format(table=self.table))).scalar_one()
        return found

    def missing_from(self, connection: Connection, number: int) -> bool:
        """Return whether it has no document of that number."""
        found = connection.execute(sql(_NUMBER.format(table=self.table)), {"number": number})
        return found.first() is None

    def bytes_used(self, connection: Connection) -> int:
        """Return its size on disk, vectors included."""
        found: int = connection.execute(
            sql("SELECT pg_total_relation_size(CAST(:table AS regclass))"), {"table": self.table}
        ).scalar_one()
        return found

    def verify(self, connection: Connection) -> None:
        """Check nothing: PostgreSQL has no check of a GIN index that all servers offer."""

    def _search(
        self,
        connection: Connection,
        statement: str,
        asked: dict[int, str],
        *,
        found: list[list[int]],
        scope: Scope,
        newest: tuple[int, int],
        limit: int,
        pattern: str | None = None,
    ) -> None:
        if not asked:
            return
        places = list(asked)
        condition = (summary_filter if statement is _SUMMARIES else message_filter)(scope)
        values = {
            **filter_values(scope),
            "asked": [asked[at] for at in places],
            "last": newest[0],
            "first": newest[1],
            "limit": limit,
            **({} if pattern is None else {"pattern": pattern}),
        }
        text = statement.format(
            table=self.table, filter=condition, more="" if pattern is None else _HAS_PIECE
        )
        for at, number in connection.execute(sql(text), values):
            found[places[at - 1]].append(number)


def _vector(document: Document) -> str:
    places: dict[str, list[int]] = {}
    for place, word in enumerate(document.words, start=1):
        places.setdefault(word.term, []).append(place)
    words = [f"'{term}':{','.join(map(str, at))}" for term, at in places.items()]
    words += {f"'~{word.form}'" for word in document.words if word.form != word.term}
    words += [f"'@{one}'" for one in document.labels]
    place_ = place_of(document.number)
    words.append(_SUMMARY if place_.is_summary else f"'@e{place_.id >> _ERA_BITS}'")
    return " ".join(words)


def _asked(clause: Clause, scope: Scope) -> str:
    wanted = [f"'@{one}'" for one in scope.labels]
    for operands in clause.required:
        alternatives = " | ".join(_operand(operand) for operand in operands)
        wanted.append(f"({alternatives})")
    wanted += [f"!({_operand(operand)})" for operand in clause.excluded]
    return " & ".join(wanted)


def _operand(operand: Operand) -> str:
    *firsts, last = operand.terms
    if not operand.prefix:
        return "(" + " <-> ".join(f"'{term}'" for term in operand.terms) + ")"
    if firsts:
        return "(" + " <-> ".join([*(f"'{term}'" for term in firsts), f"'{last}':*"]) + ")"
    return f"('{last}':* | '~{last}':*)"
