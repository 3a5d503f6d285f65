"""What a database of our own wants done now and then.

A PostgreSQL server does it by itself: autovacuum removes dead rows and keeps statistics, with the
limits that its operator has set, and what we added would only run beside it.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from sqlalchemy import Connection
from sqlalchemy.exc import OperationalError

from storage.engine import BUSY_SECONDS, Database

PATIENCE_MS = 100
"""How long this waits for a writer, and at the most keeps one waiting."""

_ROWS_LOOKED_AT = 1_000
"""Rows of each index from which statistics are made: enough to choose an index, in milliseconds."""

_ALL_TABLES = 0x10000
_ANALYZE = 0x02


@dataclass(frozen=True, slots=True)
class Tended:
    """Pages of SQLite's write-ahead log, how many of them were moved to the file, and whether the
    log was cut off then. A server's are 0."""

    pages: int = 0
    moved: int = 0
    cut_off: bool = False


def tend(database: Database) -> Tended:
    """Renew SQLite's statistics where they have grown old, and move its log into its file.

    Nobody waits for that. What would have to wait itself is left for the next time: statistics
    while somebody writes, and cutting off the log while somebody reads what is in it. Does nothing
    on a server. Raises `DatabaseUnavailable`.
    """
    if database.dialect != "sqlite":
        return Tended()
    with database.bare() as connection:
        _pragma(connection, f"busy_timeout={PATIENCE_MS}")
        try:
            _renew_statistics(connection)
            _, pages, moved = _pragma(connection, "wal_checkpoint(PASSIVE)")
            if not 0 < pages == moved:
                return Tended(pages, moved)
            busy, *_ = _pragma(connection, "wal_checkpoint(TRUNCATE)")
        finally:
            _pragma(connection, f"busy_timeout={BUSY_SECONDS * 1000}")
    return Tended(pages, moved, cut_off=not busy)


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
