"""Forget what nobody needs any more, page by page. Never messages or summaries.

Pages follow the numbers of rows, which grow with time, and end at the first young one, so that
each reads what it deletes and hardly more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, delete, exists, func, or_, select, tuple_
from sqlalchemy import text as sql

from storage.dead_jobs import DROPPED
from storage.engine import Database
from storage.jobs import JobState
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
    """How many rows were deleted, and the number behind which the next page begins; None when
    there is nothing more that is old enough."""

    deleted: int
    last: int | None


def forget_attempts(
    connection: Connection, database: Database, *, older_ms: int, after: int, limit: int
) -> Page:
    """Delete records of tries."""
    return _forget(connection, database, Attempt, older_ms=older_ms, after=after, limit=limit)


def forget_signals(
    connection: Connection, database: Database, *, older_ms: int, after: int, limit: int
) -> Page:
    """Delete signals, heard or not."""
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
    an operator has dropped stays as long as scans would make its work due again (`overdue`)."""
    finished = (Job.state == JobState.DONE) & (Job.updated_at <= database.now() - older_ms)
    finished &= ~(func.coalesce(Job.reason, "").startswith(DROPPED) & _would_come_back())
    return _forget(
        connection, database, Job, older_ms=older_ms, after=after, limit=limit, where=finished
    )


def ended_sessions(
    connection: Connection, database: Database, *, older_ms: int, limit: int
) -> list[int]:
    """Keys of sessions that ended that long ago and still have events, longest ended first."""
    has_events = exists().where(TurnEvent.session_key == Session.key)
    found = connection.execute(
        select(Session.key)
        .where(sql(ENDED), Session.ended_at <= database.moment() - older_ms, has_events)
        .order_by(Session.ended_at, Session.key)
        .limit(limit)
    )
    return list(found.scalars())


def forget_events(connection: Connection, keys: Sequence[int]) -> int:
    """Delete the events of sessions, but for those that were opened again meanwhile; gives how
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
    """Delete answers of models for which no job is open that could commit them; gives how many."""
    waits = exists().where(Job.session_key == Answer.session_key, sql(OPEN_JOB))
    key = (Answer.session_key, Answer.question)
    old = select(*key).where(Answer.created_at <= database.moment() - older_ms, ~waits).limit(limit)
    return connection.execute(delete(Answer).where(tuple_(*key).in_(old))).rowcount


def forget_slots(connection: Connection, database: Database, *, older_ms: int, limit: int) -> int:
    """Delete ticks of the schedule; gives how many."""
    key = (ScheduleSlot.schedule, ScheduleSlot.slot)
    old = select(*key).where(ScheduleSlot.taken_at <= database.now() - older_ms).limit(limit)
    return connection.execute(delete(ScheduleSlot).where(tuple_(*key).in_(old))).rowcount


def _would_come_back() -> ColumnElement[bool]:
    """Whether its session is one that a scan may find."""
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
