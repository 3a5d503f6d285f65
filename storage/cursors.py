"""Places in a session up to which something was done."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from typing import Any

from sqlalchemy import BigInteger, Connection, bindparam, select

from storage.engine import insert_of
from storage.models import Cursor, table_of

_CURSORS = table_of(Cursor)
# Built once, since every job runs them.
_READ_ALL = select(_CURSORS.c.name, _CURSORS.c.position).where(
    _CURSORS.c.session_key == bindparam("key")
)


class CursorName(StrEnum):
    MICRO = "micro"
    """Position of the first message that micro-compaction has not absorbed."""
    TURNS = "turns"
    """Number of the last closed turn about which it was decided what is due."""
    REPORTS = "reports"
    """Number of the last event whose usage report was read."""


def read(connection: Connection, key: int, name: CursorName) -> int:
    """Where the cursor stands; 0 before it was ever moved."""
    return read_all(connection, key)[name]


def read_all(connection: Connection, key: int) -> dict[CursorName, int]:
    """Where each cursor of a session stands; 0 for one that was never moved."""
    rows = connection.execute(_READ_ALL, {"key": key})
    found = {row.name: row.position for row in rows}
    return {name: found.get(name.value, 0) for name in CursorName}


def move(connection: Connection, key: int, name: CursorName, position: int) -> None:
    """Set the cursor."""
    move_all(connection, key, {name: position})


def move_all(connection: Connection, key: int, positions: Mapping[CursorName, int]) -> None:
    """Set several cursors."""
    given: dict[str, Any] = {"session_key": key}
    for number, (name, position) in enumerate(positions.items()):
        given |= {f"name_{number}": name.value, f"position_{number}": position}
    connection.execute(_move(connection.dialect.name, len(positions)), given)


@cache
def _move(dialect: str, many: int) -> Any:
    statement = insert_of(dialect, _CURSORS).values(
        [
            {
                "session_key": bindparam("session_key", type_=BigInteger),
                "name": bindparam(f"name_{number}"),
                "position": bindparam(f"position_{number}", type_=BigInteger),
            }
            for number in range(many)
        ]
    )
    return statement.on_conflict_do_update(
        index_elements=[_CURSORS.c.session_key, _CURSORS.c.name],
        set_={"position": statement.excluded.position},
    )
