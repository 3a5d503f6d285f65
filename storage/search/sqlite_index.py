"""The index in SQLite: two FTS5 tables without content of their own.

`search_words_N` has the words that `words` makes, in a column each for terms, for written forms
where they differ (prefixes), and for labels. Its tokenizer only splits at spaces. Postings are read
newest first and no further than needed. `search_pieces_N` has trigrams without places: it names the
texts that may have a piece of text, which are then read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection
from sqlalchemy import text as sql

from storage.search.documents import Document
from storage.search.query import Clause, Operand
from storage.search.scope import Label, Scope, filter_values, message_filter, summary_filter, triple
from storage.types import escape

_WORDS = (
    "CREATE VIRTUAL TABLE {words} USING fts5(words, forms, labels, content='', tokenize='ascii')"
)
_PIECES = (
    "CREATE VIRTUAL TABLE {pieces} USING fts5"
    "(piece, labels, content='', columnsize=0, detail=none, tokenize='trigram')"
)
_MESSAGES = (
    "SELECT f.rowid FROM {table} AS f"
    " CROSS JOIN messages AS m ON m.id = (f.rowid >> 8)"
    ' CROSS JOIN sessions AS s ON s."key" = m.session_key'
    " WHERE {table} MATCH :asked AND f.rowid BETWEEN 1 AND :last AND {filter}"
    " ORDER BY f.rowid DESC LIMIT :limit"
)
_SUMMARIES = (
    "SELECT f.rowid FROM {table} AS f"
    " CROSS JOIN summaries AS y ON y.id = ((-f.rowid) >> 8)"
    ' CROSS JOIN sessions AS s ON s."key" = y.session_key'
    " WHERE {table} MATCH :asked AND f.rowid BETWEEN :first AND -1 AND {filter}"
    " ORDER BY f.rowid LIMIT :limit"
)


_ADD_WORDS = "INSERT INTO {table} (rowid, words, forms, labels) VALUES (?, ?, ?, ?)"
_ADD_PIECES = "INSERT INTO {table} (rowid, piece, labels) VALUES (?, ?, ?)"
_HOLDS = "SELECT 1 FROM {table} WHERE {table} MATCH :asked AND rowid = :number"
_COUNT = "SELECT count(*) FROM {table}_docsize"
_NUMBER = "SELECT 1 FROM {table}_docsize WHERE id = ?"
_NUMBERS = "SELECT id FROM {table}_docsize WHERE id IN ({places})"
_SETTLE = (
    "DELETE FROM search_pending"
    " WHERE EXISTS (SELECT 1 FROM {table}_docsize WHERE id = search_pending.number << 8)"
)
_BYTES = "SELECT coalesce(sum(length(block)), 0) FROM {table}_data"
_VERIFY = "INSERT INTO {table} ({table}) VALUES ('integrity-check')"


class SqliteIndex:
    """One generation of the index."""

    has_pieces = True

    def __init__(self, generation: int) -> None:
        self.words = f"search_words_{generation:d}"
        self.pieces = f"search_pieces_{generation:d}"

    def create(self, connection: Connection) -> None:
        """Create its tables, empty; drop those of that name."""
        self.drop(connection)
        connection.exec_driver_sql(_WORDS.format(words=self.words))
        connection.exec_driver_sql(_PIECES.format(pieces=self.pieces))

    def complete(self, connection: Connection) -> None:
        """Do nothing: the index is complete as it is created."""

    def drop(self, connection: Connection) -> None:
        """Drop its tables, if they exist, even broken ones."""
        for table in (self.words, self.pieces):
            connection.exec_driver_sql(f"DROP TABLE IF EXISTS {table}")

    def add(self, connection: Connection, documents: Sequence[Document]) -> int:
        """Index what is not indexed yet; return the number of documents added."""
        known = self._known(connection, documents)
        new = [document for document in documents if document.number not in known]
        if not new:
            return 0
        connection.exec_driver_sql(
            _ADD_WORDS.format(table=self.words),
            [
                (
                    document.number,
                    " ".join(word.term for word in document.words),
                    " ".join({word.form for word in document.words if word.form != word.term}),
                    " ".join(document.labels),
                )
                for document in new
            ],
        )
        connection.exec_driver_sql(
            _ADD_PIECES.format(table=self.pieces),
            [
                (document.number, escape(document.text), " ".join(document.triples))
                for document in new
            ],
        )
        return len(new)

    def settle(self, connection: Connection) -> None:
        """Remove from the waiting rows those that are indexed here."""
        connection.exec_driver_sql(_SETTLE.format(table=self.words))

    def find(
        self,
        connection: Connection,
        clauses: Sequence[Clause],
        scope: Scope,
        *,
        newest: tuple[int, int],
        limit: int,
    ) -> list[list[int]]:
        """Return each clause's newest documents of messages and summaries, at most `limit` each.

        `newest` are the numbers after which nothing is searched, of messages and of summaries.
        """
        labels = [f'labels : "{one}"' for one in scope.labels]
        return [
            self._search(
                connection, self.words, _asked(clause, labels), scope, newest=newest, limit=limit
            )
            for clause in clauses
        ]

    def find_pieces(
        self,
        connection: Connection,
        fragment: str,
        scope: Scope,
        *,
        newest: tuple[int, int],
        limit: int,
    ) -> list[int]:
        """Return documents that may have `fragment`, at least three characters, somewhere in
        them."""
        triples = {fragment[at : at + 3] for at in range(len(fragment) - 2)}
        triples |= _triples(scope)
        usable = [one for one in triples if one.isprintable() or ord(one[0]) >= 0xF0000]
        asked = " AND ".join('"{}"'.format(one.replace('"', '""')) for one in sorted(usable))
        return self._search(connection, self.pieces, asked, scope, newest=newest, limit=limit)

    def holds(self, connection: Connection, number: int, term: str) -> bool:
        """Return whether the index finds document `number` by `term`."""
        asked = f'words : "{term}"'
        found = connection.execute(
            sql(_HOLDS.format(table=self.words)),
            {"asked": asked, "number": number},
        )
        return found.first() is not None

    def count(self, connection: Connection) -> int:
        """Return how many documents it has."""
        found: int = connection.exec_driver_sql(_COUNT.format(table=self.words)).scalar_one()
        return found

    def missing_from(self, connection: Connection, number: int) -> bool:
        """Return whether it has no document of that number."""
        found = connection.exec_driver_sql(_NUMBER.format(table=self.words), (number,))
        return found.first() is None

    def bytes_used(self, connection: Connection) -> int:
        """Return its size, without the free space in its pages."""
        sizes = (
            connection.exec_driver_sql(_BYTES.format(table=table)).scalar_one()
            for table in (self.words, self.pieces)
        )
        return sum(int(size) for size in sizes)

    def verify(self, connection: Connection) -> None:
        """Read all of it; raise the driver's error where something is inconsistent."""
        for table in (self.words, self.pieces):
            connection.exec_driver_sql(_VERIFY.format(table=table))

    def _known(self, connection: Connection, documents: Sequence[Document]) -> frozenset[int]:
        if not documents:
            return frozenset()
        numbers = [document.number for document in documents]
        places = ", ".join("?" * len(numbers))
        found = connection.exec_driver_sql(
            _NUMBERS.format(table=self.words, places=places), tuple(numbers)
        ).scalars()
        return frozenset(found)

    def _search(
        self,
        connection: Connection,
        table: str,
        asked: str,
        scope: Scope,
        *,
        newest: tuple[int, int],
        limit: int,
    ) -> list[int]:
        values: dict[str, Any] = {
            **filter_values(scope),
            "asked": asked,
            "last": newest[0],
            "first": newest[1],
            "limit": limit,
        }
        found: list[int] = []
        if scope.has_messages:
            statement = _MESSAGES.format(table=table, filter=message_filter(scope))
            found += connection.execute(sql(statement), values).scalars()
        if scope.has_summaries:
            statement = _SUMMARIES.format(table=table, filter=summary_filter(scope))
            found += connection.execute(sql(statement), values).scalars()
        return found


def _asked(clause: Clause, labels: Sequence[str]) -> str:
    wanted = [*labels]
    for operands in clause.required:
        alternatives = " OR ".join(_operand(operand) for operand in operands)
        wanted.append(f"({alternatives})")
    asked = " AND ".join(wanted)
    if not clause.excluded:
        return asked
    unwanted = " OR ".join(_operand(operand) for operand in clause.excluded)
    return f"({asked}) NOT ({unwanted})"


def _operand(operand: Operand) -> str:
    phrase = f'"{" ".join(operand.terms)}"'
    if not operand.prefix:
        return f"words : {phrase}"
    columns = "{words forms}" if len(operand.terms) == 1 else "words"
    return f"{columns} : {phrase} *"


def _triples(scope: Scope) -> set[str]:
    wanted = (
        (Label.OWNER, scope.owner),
        (Label.SESSION, None if scope.session is None else str(scope.session)),
        (Label.SOURCE, scope.source),
    )
    return {triple(kind, value) for kind, value in wanted if value is not None}
