"""Generations of the index: one that is searched, and one that is being built to replace it.

The index is derived from the rows, so it is created by the first process that has something to put
into it, and rebuilt beside the old one, which is searched and kept up to date meanwhile.
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


class GenerationState(StrEnum):
    """The state of an index. Serving: searched. Broken: failed. Building: not searched yet."""

    SERVING = "serving"
    BROKEN = "broken"
    BUILDING = "building"


@dataclass(frozen=True, slots=True)
class Generation:
    """An index. The process that builds it puts in the messages up to id `upto`, and has done so
    up to `done`; later ones are indexed as they are stored."""

    number: int
    state: GenerationState
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
    """Return all generations, oldest first. With `keeping` none is dropped before the transaction
    ends."""
    query = select(*_COLUMNS).order_by(_G.number)
    if keeping:
        query = query.with_for_update(read=True)
    return [
        Generation(number, GenerationState(state), rules, upto, done)
        for number, state, rules, upto, done in connection.execute(query)
    ]


def searched(connection: Connection) -> Generation | None:
    """Return the generation that answers searches, or would if it were not broken."""
    found = [
        one for one in read_generations(connection) if one.state is not GenerationState.BUILDING
    ]
    return found[-1] if found else None


def first(connection: Connection, database: Database) -> Generation:
    """Return the generation that is searched; create an empty one where there is none."""
    if connection.dialect.name == "postgresql":
        connection.execute(sql(f"SELECT pg_advisory_xact_lock({_LOCK})"))
    return searched(connection) or begin(connection, database, state=GenerationState.SERVING)


def begin(connection: Connection, database: Database, *, state: GenerationState) -> Generation:
    """Create an empty generation; discard another that was being built."""
    for other in read_generations(connection):
        if other.state is GenerationState.BUILDING:
            discard(connection, other)
    if connection.dialect.name == "postgresql":
        install_trigrams(connection)
    newest = connection.execute(select(func.coalesce(func.max(Message.id), 0))).scalar_one()
    highest = connection.execute(select(func.coalesce(func.max(_G.number), 0))).scalar_one()
    generation = Generation(highest + 1, state, RULES, newest, 0)
    connection.execute(
        insert(_G).values(
            number=generation.number,
            standing=state,
            rules=RULES,
            upto=newest,
            done=0,
            created_at=database.now(),
        )
    )
    index = generation.index(connection)
    index.create(connection)
    if state is GenerationState.SERVING:
        index.complete(connection)
    return generation


def bound(connection: Connection, generation: Generation) -> tuple[Generation, int]:
    """Set the rows up to which it has to be filled, the present ones. Returns it with the ids of
    the newest message and of the newest summary."""
    message, summary = newest_rows(connection)
    connection.execute(update(_G).where(_G.number == generation.number).values(upto=message))
    return replace(generation, upto=message), summary


def note_done(connection: Connection, generation: Generation, done: int) -> bool:
    """Store how far it is built; return whether it is still the one that is being built."""
    hit = connection.execute(
        update(_G)
        .where(_G.number == generation.number, _G.standing == GenerationState.BUILDING)
        .values(done=done)
    ).rowcount
    return hit == 1


def take_over(connection: Connection, generation: Generation) -> None:
    """Make it the one that is searched, and drop every other."""
    index = generation.index(connection)
    index.complete(connection)
    index.settle(connection)
    for other in read_generations(connection):
        if other.number != generation.number:
            discard(connection, other)
    connection.execute(
        update(_G).where(_G.number == generation.number).values(standing=GenerationState.SERVING)
    )


def note_broken(connection: Connection, number: int) -> None:
    """Mark it as broken."""
    connection.execute(
        update(_G)
        .where(_G.number == number, _G.standing == GenerationState.SERVING)
        .values(standing=GenerationState.BROKEN)
    )


def discard(connection: Connection, generation: Generation) -> None:
    """Delete it with its tables."""
    connection.execute(delete(_G).where(_G.number == generation.number))
    generation.index(connection).drop(connection)


def newest_rows(connection: Connection) -> tuple[int, int]:
    """Return the newest message's id and the newest summary's."""
    message = connection.execute(select(func.coalesce(func.max(Message.id), 0))).scalar_one()
    summary = connection.execute(select(func.coalesce(func.max(Summary.id), 0))).scalar_one()
    return message, summary


_SQLITE_CODES = frozenset({11, 267, 1})
"""SQLITE_CORRUPT, SQLITE_CORRUPT_VTAB, and SQLITE_ERROR, which reports a missing table."""

_POSTGRESQL_STATES = frozenset({"42P01", "42703", "XX001", "XX002", "58P01"})
"""A missing table or column, and data, index or file damaged."""


def is_index_fault(error: DatabaseUnavailable) -> bool:
    """Return whether a failed statement means a fault of the index, provided that it read nothing
    but the index."""
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
    """Return whether the triggers that note new rows exist."""
    message, summary = NAMES
    count = connection.execute(
        sql(_ARE_THERE[connection.dialect.name]), {"a": message, "b": summary}
    ).scalar_one()
    return bool(count == len(NAMES))


def make_again(connection: Connection) -> None:
    """Create the triggers that are missing."""
    if not are_there(connection):
        for statement in _SQLITE if connection.dialect.name == "sqlite" else _POSTGRESQL:
            connection.exec_driver_sql(statement)
