"""Find the jobs to notify workers of."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from sqlalchemy import BigInteger, Connection, func, literal_column, or_, select, update
from sqlalchemy import text as sql

from storage.engine import Database, clock
from storage.jobs import queue_states
from storage.jobs.choosing import count_notified
from storage.jobs.terms import DUE_COLUMNS, KNOWN_KIND, NOT_PAUSED, DueJob, due_job
from storage.models import BULK_QUEUE, NOTIFIABLE_JOB, OPEN_JOB, RUNNING_JOB, WAITING_BULK_JOB, Job
from storage.types import among

_J = Job


def notify_due(
    connection: Connection,
    database: Database,
    *,
    again_after_ms: int,
    at_latest_ms: int | None = None,
    limit: int,
) -> list[DueJob]:
    """Return jobs that are due, unclaimed, and were not notified within `again_after_ms`; mark them
    as notified.

    The highest priority comes first, then the longest wait. With `at_latest_ms` the pause between
    two notifications of a job grows with the time that it has waited, up to that. Jobs of a paused
    queue are left out, and bulk ones that were not notified yet (`notify_bulk`).
    """
    now = database.now()
    # A common table expression is run once; a subquery might be run once per row.
    chosen = (
        select(_J.id)
        .where(*_not_notified(database, again_after_ms, at_latest_ms))
        .order_by(_J.priority.desc(), _J.run_at)
        .limit(limit)
        .with_for_update(skip_locked=True)
        .cte("chosen")
    )
    rows = connection.execute(
        update(_J)
        .where(_J.id.in_(select(chosen.c.id)))
        .values(notified_at=now)
        .returning(*DUE_COLUMNS, _J.priority, _J.run_at)
    ).all()
    return [
        due_job(row) for row in sorted(rows, key=lambda row: (-row.priority, row.run_at, row.id))
    ]


def notify_bulk(connection: Connection, database: Database, *, at_once: int) -> list[DueJob]:
    """Return jobs of the bulk queue to notify workers of, so that `at_once` of them are notified or
    running. Serves owners round robin, of each the job that waits longest; marks them as notified.

    A job without a notification is not worked, so bulk work neither fills the broker nor takes
    every worker from what people wait for. Returns none while the queue is paused.
    """
    last = queue_states.hold(connection, BULK_QUEUE)
    notified: list[DueJob] = []
    for _ in range(at_once - _bulk_under_way(connection, at_once)):
        row = _next_bulk(connection, database, after=last)
        if row is None:
            break
        connection.execute(update(_J).where(_J.id == row.id).values(notified_at=database.now()))
        last = row.owner
        notified.append(due_job(row))
    if notified:
        queue_states.note_served(connection, BULK_QUEUE, last)
    return notified


def any_bulk(connection: Connection, database: Database, *, at_once: int) -> bool:
    """Return whether `notify_bulk` would find something. Takes no lock."""
    waiting = connection.execute(select(_J.id).where(*_waiting_bulk(database)).limit(1))
    return waiting.first() is not None and _bulk_under_way(connection, at_once) < at_once


def count_bulk(connection: Connection, *, at_most: int) -> int:
    """Return how many bulk jobs wait for a notification, counted up to `at_most`."""
    waiting = select(_J.id).where(sql(WAITING_BULK_JOB)).limit(at_most)
    found = connection.execute(select(func.count()).select_from(waiting.subquery()))
    return int(found.scalar_one())


def any_live(connection: Connection, database: Database) -> bool:
    """Return whether work that is no bulk work runs, or is due now. Takes no lock."""
    runs = select(_J.id).where(sql(RUNNING_JOB), _J.queue != BULK_QUEUE)
    due = select(_J.id).where(
        sql(NOTIFIABLE_JOB), _J.queue != BULK_QUEUE, _J.run_at <= database.moment(), NOT_PAUSED
    )
    return any(connection.execute(query.limit(1)).first() for query in (due, runs))


def any_due(
    connection: Connection,
    database: Database,
    *,
    again_after_ms: int,
    at_latest_ms: int | None = None,
) -> bool:
    """Return whether `notify_due` or `rescue_expired` would find something. Takes no lock."""
    due = select(_J.id).where(*_not_notified(database, again_after_ms, at_latest_ms))
    expired = select(_J.id).where(sql(RUNNING_JOB), _J.lease_until <= database.moment())
    return any(connection.execute(query.limit(1)).first() for query in (due, expired))


def due_in_session(connection: Connection, database: Database, key: int) -> list[DueJob]:
    """Return the session's jobs that can be claimed now: a finished job notifies workers of them.
    Bulk jobs are among them once they were notified."""
    return due_in_sessions(connection, database, [key])[key]


def due_in_sessions(
    connection: Connection, database: Database, keys: Sequence[int]
) -> dict[int, list[DueJob]]:
    """Return the same of several sessions, by their keys."""
    due: dict[int, list[DueJob]] = {key: [] for key in keys}
    statement = _due_in_sessions(database.dialect, database.offset_ms)
    for row in connection.execute(statement, {"keys": keys}):
        due[row.session_key].append(due_job(row))
    return due


@cache
def _due_in_sessions(dialect: str, offset_ms: int) -> Any:
    """Build the statement of `due_in_sessions` once: every job ends with it."""
    return (
        select(_J.session_key, *DUE_COLUMNS)
        # Both, since SQLite does not see that a due job is an open one, which has the index.
        .where(
            among(_J.__table__.c.session_key, "keys", dialect),
            sql(OPEN_JOB),
            sql(NOTIFIABLE_JOB),
            KNOWN_KIND,
            # The unary plus keeps SQLite from scanning all due jobs instead.
            literal_column("+jobs.run_at", BigInteger) <= clock(dialect, offset_ms),
            NOT_PAUSED,
        )
        .order_by(_J.priority.desc(), _J.run_at)
    )


def _not_notified(
    database: Database, again_after_ms: int, at_latest_ms: int | None
) -> tuple[Any, ...]:
    now, moment = database.now(), database.moment()
    notified_long_ago = _J.notified_at <= now - again_after_ms
    if at_latest_ms is not None:
        # A job unclaimed after several notifications waits for workers, not for a notification.
        waited = now - _J.notified_at >= _J.notified_at - _J.run_at
        notified_long_ago &= waited | (_J.notified_at <= now - at_latest_ms)
    return (
        sql(NOTIFIABLE_JOB),
        KNOWN_KIND,
        _J.run_at <= moment,
        or_(_J.notified_at.is_(None), notified_long_ago),
        NOT_PAUSED,
    )


def _next_bulk(connection: Connection, database: Database, *, after: str | None) -> Any:
    waiting = (
        select(*DUE_COLUMNS, _J.owner)
        .where(*_waiting_bulk(database))
        .order_by(_J.owner, _J.run_at, _J.id)
        .limit(1)
    )
    behind = after is not None and connection.execute(waiting.where(_J.owner > after)).first()
    return behind or connection.execute(waiting).first()


def _waiting_bulk(database: Database) -> tuple[Any, ...]:
    return (sql(WAITING_BULK_JOB), KNOWN_KIND, _J.run_at <= database.moment(), NOT_PAUSED)


def _bulk_under_way(connection: Connection, at_most: int) -> int:
    running = select(func.count()).where(sql(RUNNING_JOB), _J.queue == BULK_QUEUE)
    notified = count_notified(connection, BULK_QUEUE, at_most=at_most)
    return notified + int(connection.execute(running).scalar_one())
