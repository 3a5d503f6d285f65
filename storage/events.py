"""What gateways told, once each."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, insert, select

from storage.models import TurnEvent, table_of

# Into the table, not the mapped class: it is built once and takes no detour.
_INSERT = insert(table_of(TurnEvent))


@dataclass(frozen=True, slots=True)
class EventRecord:
    """An event as it was stored first. `turn` is the number of the turn that it closed."""

    digest: str
    turn: int | None
    first_position: int
    rows: int
    revision: int


def find(connection: Connection, key: int, event_id: str) -> EventRecord | None:
    """The event of that id in the session."""
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
    revision: int,
    at: int,
) -> None:
    """Store an event. The driver's IntegrityError tells that its id was used before."""
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
            "revision": revision,
            "created_at": at,
        },
    )
