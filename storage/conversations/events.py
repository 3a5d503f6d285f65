"""Events that gateways report, stored once each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import BigInteger, Connection, bindparam, func, insert, select
from sqlalchemy import text as sql

from storage.conversations.cursors import CursorName
from storage.models import REPORTED, Cursor, Session, TurnEvent, table_of
from storage.types import among

# Into the table, not the mapped class: it is built once and has less overhead.
_INSERT = insert(table_of(TurnEvent))
_NEWEST_REPORT = (
    select(TurnEvent.id, TurnEvent.usage, TurnEvent.revision, TurnEvent.view_tokens)
    .where(
        TurnEvent.session_key == bindparam("key"),
        TurnEvent.id > bindparam("after", type_=BigInteger),
        sql(REPORTED),
    )
    .order_by(TurnEvent.id.desc())
    .limit(1)
)


@dataclass(frozen=True, slots=True)
class EventRecord:
    """An event as it was stored first. `turn` is the number of the turn that it closed."""

    digest: str
    turn: int | None
    first_position: int
    rows: int
    revision: int


def find(connection: Connection, key: int, event_id: str) -> EventRecord | None:
    """Return the session's event with this id."""
    row = connection.execute(
        select(
            TurnEvent.digest,
            TurnEvent.turn,
            TurnEvent.first_position,
            TurnEvent.rows,
            TurnEvent.revision,
        ).where(TurnEvent.session_key == key, TurnEvent.event_id == event_id)
    ).first()
    return None if row is None else EventRecord(*row)


@dataclass(frozen=True, slots=True)
class Report:
    """A stored usage report (JSON) with the number of its event, the session's revision at that
    time, and our estimate of the view that was sent, in tokens."""

    id: int
    usage: str
    revision: int
    view_tokens: int | None


def newest_report(connection: Connection, key: int, *, after: int) -> Report | None:
    """Return the session's last usage report whose event has a number above `after`."""
    row = connection.execute(_NEWEST_REPORT, {"key": key, "after": after}).first()
    return None if row is None else Report(row.id, row.usage or "", row.revision, row.view_tokens)


def unread_reports(connection: Connection, keys: Sequence[int]) -> dict[int, Report]:
    """Return the last usage report of each of those sessions, by key, where it was not read yet:
    where its number is above the cursor `reports`."""
    dialect = connection.dialect.name
    newest = connection.execute(_unread_reports(dialect), {"keys": keys})
    ids = [row.id for row in newest if row.id is not None]
    if not ids:
        return {}
    rows = connection.execute(_reports(dialect), {"ids": ids})
    return {
        row.session_key: Report(row.id, row.usage or "", row.revision, row.view_tokens)
        for row in rows
    }


# Built once, since every turn job runs them.
@cache
def _unread_reports(dialect: str) -> Any:
    sessions, events, at = table_of(Session), table_of(TurnEvent).c, table_of(Cursor).c
    read = (
        select(at.position)
        .where(at.session_key == sessions.c.key, at.name == CursorName.REPORTS)
        # SQLAlchemy would not correlate it by itself, two levels up.
        .correlate(sessions)
        .scalar_subquery()
    )
    newest = (
        select(func.max(events.id))
        .where(
            events.session_key == sessions.c.key,
            events.id > func.coalesce(read, 0),
            sql(REPORTED),
        )
        .correlate(sessions)
        .scalar_subquery()
    )
    return select(newest.label("id")).where(among(sessions.c.key, "keys", dialect))


@cache
def _reports(dialect: str) -> Any:
    events = table_of(TurnEvent).c
    return select(
        events.session_key, events.id, events.usage, events.revision, events.view_tokens
    ).where(among(events.id, "ids", dialect))


def record(
    connection: Connection,
    key: int,
    *,
    event_id: str,
    digest: str,
    turn: int | None,
    first_position: int,
    rows: int,
    usage: str | None,
    view_tokens: int | None,
    revision: int,
    at: int,
) -> None:
    """Store an event; `view_tokens` is our estimate of the view that the usage is of.

    The driver's IntegrityError means that its id was used before.
    """
    connection.execute(
        _INSERT,
        {
            "session_key": key,
            "event_id": event_id,
            "digest": digest,
            "turn": turn,
            "first_position": first_position,
            "rows": rows,
            "usage": usage,
            "view_tokens": view_tokens,
            "revision": revision,
            "created_at": at,
        },
    )
