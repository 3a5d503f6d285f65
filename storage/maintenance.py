"""Delete outdated records, page by page, and maintain the tables. Never messages or summaries.

Pages follow the numbers of rows, which grow with time, and end at the first row that is too young,
so each reads little more than it deletes.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, delete, exists, func, or_, select, tuple_
from sqlalchemy import text as sql
from sqlalchemy.exc import OperationalError

from storage.engine import BUSY_SECONDS, Database
from storage.jobs import JobState
from storage.jobs.dead_jobs import DROPPED
from storage.models import (
    COOLDOWN_GUARD,
    ENDED,
    LIVE_PLACEHOLDER,
    OPEN_JOB,
    UNDECIDED,
    Answer,
    Attempt,
    AuditEntry,
    Guard,
    Job,
    ScheduleSlot,
    Session,
    Signal,
    Summary,
    TurnEvent,
)


@dataclass(frozen=True, slots=True)
class Page:
    """How many rows were deleted, and the number after which the next page begins; None when no
    further row is old enough."""

    deleted: int
    last: int | None


def forget_attempts(
    connection: Connection, database: Database, *, older_ms: int, after: int, limit: int
) -> Page:
    """Delete records of attempts."""
    return _forget(connection, database, Attempt, older_ms=older_ms, after=after, limit=limit)


def forget_signals(
    connection: Connection, database: Database, *, older_ms: int, after: int, limit: int
) -> Page:
    """Delete signals, whether a gateway has read them or not."""
    return _forget(connection, database, Signal, older_ms=older_ms, after=after, limit=limit)


def forget_audit(
    connection: Connection, database: Database, *, older_ms: int, after: int, limit: int
) -> Page:
    """Delete entries of the audit trail."""
    return _forget(connection, database, AuditEntry, older_ms=older_ms, after=after, limit=limit)


def forget_jobs(
    connection: Connection, database: Database, *, older_ms: int, after: int, limit: int
) -> Page:
    """Delete jobs that were finished that long ago. Dead ones are left to operators, and one that
    an operator has dropped stays as long as scans would enqueue its work again (`overdue`)."""
    finished = (Job.state == JobState.DONE) & (Job.updated_at <= database.now() - older_ms)
    finished &= ~(func.coalesce(Job.reason, "").startswith(DROPPED) & _would_come_back())
    return _forget(
        connection, database, Job, older_ms=older_ms, after=after, limit=limit, where=finished
    )


def ended_sessions(
    connection: Connection, database: Database, *, older_ms: int, limit: int
) -> list[int]:
    """Return keys of sessions that ended that long ago and still have events, longest ended
    first."""
    has_events = exists().where(TurnEvent.session_key == Session.key)
    found = connection.execute(
        select(Session.key)
        .where(sql(ENDED), Session.ended_at <= database.moment() - older_ms, has_events)
        .order_by(Session.ended_at, Session.key)
        .limit(limit)
    )
    return list(found.scalars())


def forget_events(connection: Connection, keys: Sequence[int]) -> int:
    """Delete the events of sessions, except those that were opened again meanwhile; return how
    many."""
    found = connection.execute(
        select(Session.key, Session.ended_at)
        .where(Session.key.in_(keys))
        .order_by(Session.key)
        .with_for_update(key_share=True)
    )
    ended = [key for key, ended_at in found if ended_at is not None]
    return connection.execute(delete(TurnEvent).where(TurnEvent.session_key.in_(ended))).rowcount


def forget_answers(connection: Connection, database: Database, *, older_ms: int, limit: int) -> int:
    """Delete answers of models that no open job could commit; return how many."""
    waits = exists().where(Job.session_key == Answer.session_key, sql(OPEN_JOB))
    key = (Answer.session_key, Answer.question)
    old = select(*key).where(Answer.created_at <= database.moment() - older_ms, ~waits).limit(limit)
    return connection.execute(delete(Answer).where(tuple_(*key).in_(old))).rowcount


def forget_slots(connection: Connection, database: Database, *, older_ms: int, limit: int) -> int:
    """Delete ticks of the schedule; return how many."""
    key = (ScheduleSlot.schedule, ScheduleSlot.slot)
    old = select(*key).where(ScheduleSlot.taken_at <= database.now() - older_ms).limit(limit)
    return connection.execute(delete(ScheduleSlot).where(tuple_(*key).in_(old))).rowcount


def _would_come_back() -> ColumnElement[bool]:
    """Return whether a scan may find its session."""
    of_session = Job.session_key
    return or_(
        exists().where(Session.key == of_session, sql(UNDECIDED)),
        exists().where(Guard.session_key == of_session, sql(COOLDOWN_GUARD)),
        exists().where(Summary.session_key == of_session, sql(LIVE_PLACEHOLDER)),
    )


def _forget(
    connection: Connection,
    database: Database,
    table: Any,
    *,
    older_ms: int,
    after: int,
    limit: int,
    where: ColumnElement[bool] | None = None,
) -> Page:
    is_old = table.created_at <= database.now() - older_ms
    rows = connection.execute(
        select(table.id, is_old.label("is_old"))
        .where(table.id > after)
        .order_by(table.id)
        .limit(limit)
    ).all()
    old = [row.id for row in rows if row.is_old]
    if not old:
        return Page(0, None)
    gone = delete(table).where(table.id.in_(old))
    deleted = connection.execute(gone if where is None else gone.where(where)).rowcount
    return Page(deleted, old[-1] if len(old) == limit else None)


BUSY_TIMEOUT_MS = 100
"""The longest wait for a writer, and the longest time that a writer is kept waiting."""

_ROWS_LOOKED_AT = 1_000
"""Rows of each index from which statistics are made: enough to choose an index, in milliseconds."""

_ALL_TABLES = 0x10000
_ANALYZE = 0x02


@dataclass(frozen=True, slots=True)
class Maintained:
    """Pages of SQLite's write-ahead log, how many of them were moved to the file, and whether the
    log was truncated. All are 0 on PostgreSQL."""

    pages: int = 0
    moved: int = 0
    cut_off: bool = False


def maintain(database: Database) -> Maintained:
    """Renew SQLite's statistics where they are outdated, and move its log into its file.

    No other process waits for that. Steps that would themselves have to wait are left for the next
    call: statistics while another process writes, and truncating the log while one reads from it.
    Does nothing on PostgreSQL. Raises `DatabaseUnavailable`.
    """
    if database.dialect != "sqlite":
        return Maintained()
    with database.bare() as connection:
        _pragma(connection, f"busy_timeout={BUSY_TIMEOUT_MS}")
        try:
            _renew_statistics(connection)
            _, pages, moved = _pragma(connection, "wal_checkpoint(PASSIVE)")
            if not 0 < pages == moved:
                return Maintained(pages, moved)
            busy, *_ = _pragma(connection, "wal_checkpoint(TRUNCATE)")
        finally:
            _pragma(connection, f"busy_timeout={BUSY_SECONDS * 1000}")
    return Maintained(pages, moved, cut_off=not busy)


def _renew_statistics(connection: Connection) -> None:
    _pragma(connection, f"analysis_limit={_ROWS_LOOKED_AT}")
    try:
        _pragma(connection, f"optimize={_ALL_TABLES | _ANALYZE}")
    except OperationalError as error:
        code = getattr(error.orig, "sqlite_errorcode", 0)
        if code & 0xFF != sqlite3.SQLITE_BUSY:
            raise


def _pragma(connection: Connection, text: str) -> tuple[int, ...]:
    row = connection.exec_driver_sql(f"PRAGMA {text}").first()
    return () if row is None else tuple(row)
