"""How the deployment stands, in figures over all sessions and owners."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, case, func, select
from sqlalchemy import text as sql

from storage.engine import Database
from storage.guards import GuardName
from storage.jobs import JobState
from storage.models import (
    COOLDOWN_GUARD,
    LIVE_PLACEHOLDER,
    OPEN_JOB,
    RUNNING_JOB,
    UNDECIDED,
    Guard,
    Job,
    Session,
    Summary,
    TurnEvent,
)


@dataclass(frozen=True, slots=True)
class Leases:
    """Running jobs: those whose holder renews in time, and those whose lease has ended."""

    held: int
    expired: int


@dataclass(frozen=True, slots=True)
class Lag:
    """Sessions with a closed turn that nobody has decided about, and how long ago the oldest of
    those turns was stored; None where there is none."""

    sessions: int
    oldest_ms: int | None


@dataclass(frozen=True, slots=True)
class SessionSize:
    """What a session's occupancy follows from; tokens are estimates."""

    key: int
    model: str
    context_window: int | None
    declared_window: int | None
    reserved_output: int
    live_tokens: int


def leases(connection: Connection, database: Database) -> Leases:
    """Count running jobs by their leases, by the database's clock."""
    expired = func.sum(case((Job.lease_until <= database.now(), 1), else_=0))
    total, ended = connection.execute(
        select(func.count(), expired).select_from(Job).where(sql(RUNNING_JOB))
    ).one()
    return Leases(total - int(ended or 0), int(ended or 0))


def retrying(connection: Connection) -> dict[str, int]:
    """Due jobs that were tried in vain before, by queue."""
    tried = (Job.attempt > 0) | (Job.tries > 0)
    rows = connection.execute(
        select(Job.queue, func.count())
        .where(sql(OPEN_JOB), Job.state == JobState.DUE, tried)
        .group_by(Job.queue)
    )
    return {row[0]: row[1] for row in rows}


def lag(connection: Connection, database: Database) -> Lag:
    """How far decisions are behind events. Reads the events of undecided sessions only."""
    # As a question for each of them: a join would read the events of all sessions.
    first = (
        select(func.min(TurnEvent.created_at))
        .where(TurnEvent.session_key == Session.key, TurnEvent.turn > Session.decided_turns)
        .correlate(Session)
        .scalar_subquery()
    )
    waiting = select(first.label("first")).select_from(Session).where(sql(UNDECIDED)).subquery()
    undecided, oldest = connection.execute(
        select(func.count(waiting.c.first), database.now() - func.min(waiting.c.first))
    ).one()
    return Lag(undecided, None if oldest is None else max(0, int(oldest)))


def cooldowns(connection: Connection, database: Database) -> int:
    """Sessions whose automatic passes rest now after a failure."""
    return connection.execute(
        select(func.count())
        .select_from(Guard)
        .where(sql(COOLDOWN_GUARD), Guard.until_at > database.moment())
    ).scalar_one()


def locked(connection: Connection, database: Database) -> int:
    """Sessions whose automatic batch passes are locked because they hardly saved anything."""
    return connection.execute(
        select(func.count())
        .select_from(Guard)
        .where(Guard.name == GuardName.POOR_PASSES, Guard.until_at > database.moment())
    ).scalar_one()


def placeholders(connection: Connection) -> int:
    """Sessions that show a placeholder made without a model."""
    return connection.execute(
        select(func.count()).select_from(Summary).where(sql(LIVE_PLACEHOLDER))
    ).scalar_one()


def active_sizes(
    connection: Connection, database: Database, *, within_ms: int, limit: int
) -> list[SessionSize]:
    """Sizes of the sessions that were last active, at most `within_ms` ago, and have not ended."""
    columns = [getattr(Session, name) for name in SessionSize.__dataclass_fields__]
    rows = connection.execute(
        select(*columns)
        .where(Session.active_at > database.moment() - within_ms, Session.ended_at.is_(None))
        .order_by(Session.active_at.desc())
        .limit(limit)
    )
    return [SessionSize(*row) for row in rows]
