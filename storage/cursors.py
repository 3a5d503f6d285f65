"""Places in a session up to which something was done."""

from __future__ import annotations

from enum import StrEnum

from sqlalchemy import Connection, select

from storage.engine import insert_into
from storage.models import Cursor


class CursorName(StrEnum):
    MICRO = "micro"
    """Position of the first message that micro-compaction has not absorbed."""
    TURNS = "turns"
    """Number of the last closed turn about which it was decided what is due."""
    REPORTS = "reports"
    """Number of the last event whose usage report was read."""


def read(connection: Connection, key: int, name: CursorName) -> int:
    """Where the cursor stands; 0 before it was ever moved."""
    found = connection.execute(
        select(Cursor.position).where(Cursor.session_key == key, Cursor.name == name)
    ).scalar_one_or_none()
    return found or 0


def move(connection: Connection, key: int, name: CursorName, position: int) -> None:
    """Set the cursor."""
    connection.execute(
        insert_into(connection, Cursor)
        .values(session_key=key, name=name, position=position)
        .on_conflict_do_update(
            index_elements=[Cursor.session_key, Cursor.name], set_={"position": position}
        )
    )
