"""What is due in a database now, and time that passes there faster than on a clock."""

from __future__ import annotations

from contextlib import suppress

from sqlalchemy import text as sql

from storage.engine import Database
from storage.errors import StorageError
from tests.support.sessions.gateways import rows_of

_LOST_NOTIFICATION_MS = 30_000
_MOST_TRIES = 10


def due_or_running(database: Database) -> bool:
    """Return whether a job runs or could be claimed now."""
    now = (
        "CAST((julianday('now') - 2440587.5) * 86400000.0 AS INTEGER)"
        if database.dialect == "sqlite"
        else "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)"
    )
    query = f"SELECT id FROM jobs WHERE state = 'running' OR state = 'due' AND run_at <= {now}"
    try:
        return bool(rows_of(database, f"{query} LIMIT 1"))
    except StorageError:
        return True


def count_notifications_as_lost(database: Database) -> None:
    """Let the half minute pass after which the reconciler notifies again."""
    _shift(
        database,
        "UPDATE jobs SET notified_at = notified_at - :ms WHERE state = 'due'",
        _LOST_NOTIFICATION_MS,
    )


def move_times_back(database: Database, ms: int) -> None:
    """Do to all that waits what `ms` milliseconds that pass would do."""
    for statement in (
        "UPDATE guards SET until_at = until_at - :ms",
        "UPDATE endpoints SET open_until = open_until - :ms, probe_until = probe_until - :ms",
        "UPDATE jobs SET run_at = run_at - :ms, notified_at = notified_at - :ms"
        " WHERE state = 'due'",
    ):
        _shift(database, statement, ms)


def _shift(database: Database, statement: str, ms: int) -> None:
    # Rows are locked here in another order than workers lock them.
    for _ in range(_MOST_TRIES):
        with suppress(StorageError), database.write() as connection:
            connection.execute(sql(statement), {"ms": ms})
            return
