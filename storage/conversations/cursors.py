"""Cursors: places in a session up to which something was done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import cache
from typing import Any

from sqlalchemy import BigInteger, Connection, Text, select, true

from storage.engine import insert_of
from storage.models import Cursor, table_of
from storage.types import among, rows_given

_CURSORS = table_of(Cursor)


class CursorName(StrEnum):
    MICRO = "micro"
    """Position of the first message that micro-compaction has not absorbed."""
    TURNS = "turns"
    """Number of the last closed turn for which it was decided what is due."""
    REPORTS = "reports"
    """Number of the last event whose usage report was read."""


def read(connection: Connection, key: int, name: CursorName) -> int:
    """Return the cursor's position; 0 before it was ever moved."""
    return read_all(connection, key)[name]


def read_all(connection: Connection, key: int) -> dict[CursorName, int]:
    """Return the position of each cursor of a session; 0 for one that was never moved."""
    return read_many(connection, [key])[key]


def read_many(connection: Connection, keys: Sequence[int]) -> dict[int, dict[CursorName, int]]:
    """Return the same of several sessions, by their keys."""
    rows = connection.execute(_read_many(connection.dialect.name), {"keys": keys})
    found = {(row.session_key, row.name): row.position for row in rows}
    return {key: {name: found.get((key, name.value), 0) for name in CursorName} for key in keys}


def move(connection: Connection, key: int, name: CursorName, position: int) -> None:
    """Set the cursor."""
    move_all(connection, key, {name: position})


def move_all(connection: Connection, key: int, positions: Mapping[CursorName, int]) -> None:
    """Set several cursors."""
    move_many(connection, {key: positions})


def move_many(connection: Connection, positions: Mapping[int, Mapping[CursorName, int]]) -> None:
    """Set cursors of several sessions, by their keys."""
    given = [
        (key, name.value, position)
        for key, of_one in positions.items()
        for name, position in of_one.items()
    ]
    if given:
        lists = dict(zip(("session", "cursor", "place"), zip(*given, strict=True), strict=True))
        connection.execute(_move(connection.dialect.name), lists)


# Built once, since every job runs them.
@cache
def _read_many(dialect: str) -> Any:
    return select(_CURSORS.c.session_key, _CURSORS.c.name, _CURSORS.c.position).where(
        among(_CURSORS.c.session_key, "keys", dialect)
    )


@cache
def _move(dialect: str) -> Any:
    given = rows_given(dialect, session=BigInteger, cursor=Text, place=BigInteger)
    # SQLite takes the ON of a SELECT without a condition for that of a join.
    rows = select(given.c.session, given.c.cursor, given.c.place).where(true())
    statement = insert_of(dialect, _CURSORS).from_select(("session_key", "name", "position"), rows)
    return statement.on_conflict_do_update(
        index_elements=[_CURSORS.c.session_key, _CURSORS.c.name],
        set_={"position": statement.excluded.position},
    )
