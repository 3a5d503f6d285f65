"""How a session stands, besides its messages: what every pass begins with, in one statement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import BigInteger, Connection, bindparam, exists, func, literal, select

from storage import guards, sessions
from storage.cursors import CursorName
from storage.engine import Database, clock
from storage.errors import SessionNotFound
from storage.guards import GuardName, GuardRecord
from storage.models import Answer, Cursor, Guard, Session, table_of
from storage.sessions import SessionRecord


@dataclass(frozen=True, slots=True)
class Standing:
    """A session with its guards and the cursor `micro`; `has_answers` says whether some may be kept
    for it."""

    session: SessionRecord
    cursor: int
    guards: Mapping[GuardName, GuardRecord]
    has_answers: bool = True


def read_standing(connection: Connection, database: Database, key: int) -> Standing:
    """How the session of that key stands. Raises `SessionNotFound`."""
    statement = _standing(database.dialect, database.offset_ms)
    rows = connection.execute(statement, {"key": key}).all()
    if not rows:
        raise SessionNotFound(str(key), "")
    many = len(sessions.COLUMNS)
    cursor, has_answers = rows[0][many : many + 2]
    held = (row[many + 2 :] for row in rows)
    return Standing(
        sessions.record_of(rows[0][:many]),
        cursor,
        {GuardName(name): GuardRecord(*record) for name, *record in held if name is not None},
        bool(has_answers),
    )


@cache
def _standing(dialect: str, offset_ms: int) -> Any:
    """The statement of `read_standing`, built once: every pass runs it."""
    one, at, guard = table_of(Session), table_of(Cursor), table_of(Guard)
    answer = table_of(Answer).c
    is_cursor = (at.c.session_key == one.c.key) & (at.c.name == CursorName.MICRO)
    is_guard = (guard.c.session_key == one.c.key) & guards.KNOWN
    return (
        select(
            *sessions.COLUMNS,
            func.coalesce(at.c.position, literal(0, BigInteger)),
            exists().where(answer.session_key == one.c.key),
            guard.c.name,
            *guards.fields(clock(dialect, offset_ms)),
        )
        .select_from(one.outerjoin(at, is_cursor).outerjoin(guard, is_guard))
        .where(one.c.key == bindparam("key"))
    )
