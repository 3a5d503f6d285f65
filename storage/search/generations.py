"""Which indexes there are: one that is searched, and one that is being built to take its place.

The index is derived, so it is made by whoever first has something to put into it, and made anew
beside the old one, which goes on being searched and kept up meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeAlias

from sqlalchemy import Connection, delete, func, insert, select, update
from sqlalchemy import text as sql

from storage.engine import Database
from storage.errors import DatabaseUnavailable
from storage.models import Message, SearchGeneration, Summary
from storage.search.postgresql_index import PostgresIndex, has_trigrams, install_trigrams
from storage.search.sqlite_index import SqliteIndex
from storage.search.words import RULES

Index: TypeAlias = SqliteIndex | PostgresIndex


class Standing(StrEnum):
    """Serving: searched. Broken: it would be searched, and failed. Building: not yet searched."""

    SERVING = "serving"
    BROKEN = "broken"
    BUILDING = "building"


@dataclass(frozen=True, slots=True)
class Generation:
    """An index. Messages up to id `upto` are put into it by who builds it, of which those up to
    `done` are; later ones come as they are stored."""

    number: int
    standing: Standing
    rules: str
    upto: int
    done: int

    def index(self, connection: Connection) -> Index:
        """Return the index itself."""
        if connection.dialect.name == "sqlite":
            return SqliteIndex(self.number)
        return PostgresIndex(self.number, has_pieces=has_trigrams(connection))

    @property
    def is_outdated(self) -> bool:
        """Whether other rules made it than those by which queries are read now."""
        return self.rules != RULES


_LOCK = 0x73656172
"""Advisory lock of PostgreSQL under which one process makes the first index."""

_G = SearchGeneration
_COLUMNS = (_G.number, _G.standing, _G.rules, _G.upto, _G.done)


def read_generations(connection: Connection, *, keeping: bool = False) -> list[Generation]:
    """Return all that there are, oldest first. With `keeping` none is dropped before the
    transaction ends."""
    query = select(*_COLUMNS).order_by(_G.number)
    if keeping:
        query = query.with_for_update(read=True)
    return [
        Generation(number, Standing(standing), rules, upto, done)
        for number, standing, rules, upto, done in connection.execute(query)
    ]


def searched(connection: Connection) -> Generation | None:
    """Return the one that answers searches, or would if it were not broken."""
    found = [one for one in read_generations(connection) if one.standing is not Standing.BUILDING]
    return found[-1] if found else None


def first(connection: Connection, database: Database) -> Generation:
    """Return the one that is searched; made, empty, where there is none yet."""
    if connection.dialect.name == "postgresql":
        connection.execute(sql(f"SELECT pg_advisory_xact_lock({_LOCK})"))
    return searched(connection) or begin(connection, database, standing=Standing.SERVING)


def begin(connection: Connection, database: Database, *, standing: Standing) -> Generation:
    """Make an empty one; another that was being built is given up."""
    for other in read_generations(connection):
        if other.standing is Standing.BUILDING:
            discard(connection, other)
    if connection.dialect.name == "postgresql":
        install_trigrams(connection)
    newest = connection.execute(select(func.coalesce(func.max(Message.id), 0))).scalar_one()
    highest = connection.execute(select(func.coalesce(func.max(_G.number), 0))).scalar_one()
    generation = Generation(highest + 1, standing, RULES, newest, 0)
    connection.execute(
        insert(_G).values(
            number=generation.number,
            standing=standing,
            rules=RULES,
            upto=newest,
            done=0,
            created_at=database.now(),
        )
    )
    index = generation.index(connection)
    index.create(connection)
    if standing is Standing.SERVING:
        index.complete(connection)
    return generation


def bound(connection: Connection, generation: Generation) -> tuple[Generation, int]:
    """Note up to which rows it has to be filled: those of now. Gives it with the newest message's
    id, and the newest summary's."""
    message, summary = newest_rows(connection)
    connection.execute(update(_G).where(_G.number == generation.number).values(upto=message))
    return replace(generation, upto=message), summary


def note_done(connection: Connection, generation: Generation, done: int) -> bool:
    """Note how far it is built; whether it is still the one that is being built."""
    hit = connection.execute(
        update(_G)
        .where(_G.number == generation.number, _G.standing == Standing.BUILDING)
        .values(done=done)
    ).rowcount
    return hit == 1


def take_over(connection: Connection, generation: Generation) -> None:
    """Let it be searched, and drop every other."""
    index = generation.index(connection)
    index.complete(connection)
    index.settle(connection)
    for other in read_generations(connection):
        if other.number != generation.number:
            discard(connection, other)
    connection.execute(
        update(_G).where(_G.number == generation.number).values(standing=Standing.SERVING)
    )


def note_broken(connection: Connection, number: int) -> None:
    """Note that it failed."""
    connection.execute(
        update(_G)
        .where(_G.number == number, _G.standing == Standing.SERVING)
        .values(standing=Standing.BROKEN)
    )


def discard(connection: Connection, generation: Generation) -> None:
    """Remove it."""
    connection.execute(delete(_G).where(_G.number == generation.number))
    generation.index(connection).drop(connection)


def newest_rows(connection: Connection) -> tuple[int, int]:
    """Return the newest message's id and the newest summary's."""
    message = connection.execute(select(func.coalesce(func.max(Message.id), 0))).scalar_one()
    summary = connection.execute(select(func.coalesce(func.max(Summary.id), 0))).scalar_one()
    return message, summary


_SQLITE_CODES = frozenset({11, 267, 1})
"""SQLITE_CORRUPT, SQLITE_CORRUPT_VTAB, and SQLITE_ERROR, with which a missing table is told."""

_POSTGRESQL_STATES = frozenset({"42P01", "42703", "XX001", "XX002", "58P01"})
"""A missing table or column, and data, index or file damaged."""


def is_index_fault(error: DatabaseUnavailable) -> bool:
    """Return whether a statement failed over the index, seen from where only the index was
    asked."""
    driver = getattr(error.__cause__, "orig", None)
    code = getattr(driver, "sqlite_errorcode", None)
    if code is not None:
        return code in _SQLITE_CODES or code & 0xFF == 11
    return getattr(driver, "sqlstate", None) in _POSTGRESQL_STATES


NAMES = ("search_message_added", "search_summary_added")

_SQLITE = (
    "CREATE TRIGGER IF NOT EXISTS search_message_added AFTER INSERT ON messages"
    " WHEN NEW.kind = 'message'"
    " BEGIN INSERT OR IGNORE INTO search_pending (number) VALUES (NEW.id); END",
    "CREATE TRIGGER IF NOT EXISTS search_summary_added AFTER INSERT ON summaries"
    " BEGIN INSERT OR IGNORE INTO search_pending (number) VALUES (-NEW.id); END",
)
_POSTGRESQL = (
    "CREATE OR REPLACE TRIGGER search_message_added AFTER INSERT ON messages"
    " REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION search_note_messages()",
    "CREATE OR REPLACE TRIGGER search_summary_added AFTER INSERT ON summaries"
    " REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION search_note_summaries()",
)
_ARE_THERE = {
    "sqlite": "SELECT count(*) FROM sqlite_master WHERE type = 'trigger' AND name IN (:a, :b)",
    "postgresql": (
        "SELECT count(DISTINCT tgname) FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid"
        " WHERE pg_table_is_visible(pg_class.oid) AND tgenabled <> 'D' AND tgname IN (:a, :b)"
    ),
}


def are_there(connection: Connection) -> bool:
    """Return whether new rows are noted."""
    message, summary = NAMES
    count = connection.execute(
        sql(_ARE_THERE[connection.dialect.name]), {"a": message, "b": summary}
    ).scalar_one()
    return bool(count == len(NAMES))


def make_again(connection: Connection) -> None:
    """Make those that are missing."""
    if not are_there(connection):
        for statement in _SQLITE if connection.dialect.name == "sqlite" else _POSTGRESQL:
            connection.exec_driver_sql(statement)
