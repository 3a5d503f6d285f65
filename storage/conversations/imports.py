"""Imported sessions: how far each was read at its source, and its counters."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, select, update

from storage.conversations.sessions import RECOUNTED
from storage.engine import Database, insert_into
from storage.models import ImportedSession, Session, table_of

_I = ImportedSession


@dataclass(frozen=True, slots=True)
class ImportRecord:
    """The record of an imported session. `rows` originals of the source were stored, the last of
    them with the number `last_row` there; `digest` stands for them and their order."""

    session_key: int
    origin: str
    rows: int
    last_row: int
    digest: str


@dataclass(frozen=True, slots=True)
class Figures:
    """The counters of a session after an import; times in milliseconds since 1970 (UTC)."""

    next_position: int
    turns: int
    live_messages: int
    live_tokens: int
    started_at: int
    active_at: int
    ended_at: int | None


def find(connection: Connection, key: int) -> ImportRecord | None:
    """Return how far a session was read; None where it was not imported."""
    found = connection.execute(
        select(_I.session_key, _I.origin, _I.rows, _I.last_row, _I.digest).where(
            _I.session_key == key
        )
    ).first()
    return None if found is None else ImportRecord(*found)


def note(connection: Connection, database: Database, record: ImportRecord) -> None:
    """Record how far a session was read. The caller holds its row."""
    values = {"rows": record.rows, "last_row": record.last_row, "digest": record.digest}
    connection.execute(
        insert_into(connection, _I)
        .values(
            session_key=record.session_key,
            origin=record.origin,
            updated_at=database.now(),
            **values,
        )
        .on_conflict_do_update(
            index_elements=[_I.session_key], set_={**values, "updated_at": database.now()}
        )
    )


def set_figures(connection: Connection, key: int, figures: Figures) -> None:
    """Set the counters of an imported session, whose rows are stored.

    This makes nothing due: no turn waits for a decision, and the session does not count as one that
    has just become idle.
    """
    connection.execute(
        update(table_of(Session))
        .where(Session.key == key)
        .values(
            next_position=figures.next_position,
            turns=figures.turns,
            decided_turns=figures.turns,
            live_messages=figures.live_messages,
            live_tokens=figures.live_tokens,
            unabsorbed_tokens=RECOUNTED,
            checked_tokens=None,
            turn_open=0,
            started_at=figures.started_at,
            active_at=figures.active_at,
            idle_since=None,
            ended_at=figures.ended_at,
        )
    )
