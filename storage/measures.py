"""Figures about the deployment, over all sessions and owners."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from sqlalchemy import Connection, case, func, select, update
from sqlalchemy import text as sql

from storage.engine import Database, insert_into
from storage.guards import GuardName
from storage.jobs import JobState
from storage.models import (
    COOLDOWN_GUARD,
    LIVE_PLACEHOLDER,
    OPEN_JOB,
    RUNNING_JOB,
    UNDECIDED,
    Attempt,
    Guard,
    Job,
    Session,
    Summary,
    Total,
    TurnEvent,
)


@dataclass(frozen=True, slots=True)
class Leases:
    """Running jobs: those whose lease is valid, and those whose lease has ended."""

    held: int
    expired: int


@dataclass(frozen=True, slots=True)
class Lag:
    """Sessions with a closed turn that is not decided yet, and how long ago the oldest of those
    turns was stored; None where there is none."""

    sessions: int
    oldest_ms: int | None


@dataclass(frozen=True, slots=True)
class SessionSize:
    """The figures that a session's occupancy is computed from; tokens are estimates."""

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
    """Count due jobs that failed before, by queue."""
    tried = (Job.attempt > 0) | (Job.tries > 0)
    rows = connection.execute(
        select(Job.queue, func.count())
        .where(sql(OPEN_JOB), Job.state == JobState.DUE, tried)
        .group_by(Job.queue)
    )
    return {row[0]: row[1] for row in rows}


def lag(connection: Connection, database: Database) -> Lag:
    """Return how far decisions are behind events. Reads the events of undecided sessions only."""
    # A subquery for each of them: a join would read the events of all sessions.
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
    """Count sessions whose automatic passes rest now after a failure."""
    return connection.execute(
        select(func.count())
        .select_from(Guard)
        .where(sql(COOLDOWN_GUARD), Guard.until_at > database.moment())
    ).scalar_one()


def locked(connection: Connection, database: Database) -> int:
    """Count sessions whose automatic batch passes are suppressed because they saved hardly
    anything."""
    return connection.execute(
        select(func.count())
        .select_from(Guard)
        .where(Guard.name == GuardName.POOR_PASSES, Guard.until_at > database.moment())
    ).scalar_one()


def placeholders(connection: Connection) -> int:
    """Count sessions that show a placeholder made without a model."""
    return connection.execute(
        select(func.count()).select_from(Summary).where(sql(LIVE_PLACEHOLDER))
    ).scalar_one()


def active_sizes(
    connection: Connection, database: Database, *, within_ms: int, limit: int
) -> list[SessionSize]:
    """Return sizes of the last active sessions, active at most `within_ms` ago and not ended."""
    columns = [getattr(Session, name) for name in SessionSize.__dataclass_fields__]
    rows = connection.execute(
        select(*columns)
        .where(Session.active_at > database.moment() - within_ms, Session.ended_at.is_(None))
        .order_by(Session.active_at.desc())
        .limit(limit)
    )
    return [SessionSize(*row) for row in rows]


Series: TypeAlias = tuple[str, tuple[str, ...]]
"""A figure's name and the values of its labels."""

SETTLED_MS = 120_000
"""The age of a record from which on no other with a lower number can appear: far longer than a
transaction lasts, which the server ends after half a minute of silence."""

_MARK: Series = ("attempts_counted", ())


@dataclass(frozen=True, slots=True)
class Try:
    """The columns of an attempt that figures are counted from. Durations in milliseconds."""

    id: int
    kind: str
    trigger: str
    outcome: str
    error_class: str | None
    model: str
    requests: int
    prompt_tokens: int | None
    completion_tokens: int | None
    tokens_before: int
    tokens_after: int
    total_ms: int
    model_ms: int


_COLUMNS = tuple(getattr(Attempt, name) for name in Try.__dataclass_fields__)


def read(connection: Connection) -> tuple[dict[Series, int], int]:
    """Return all counted figures, and the number of the last attempt that is counted."""
    rows = connection.execute(select(Total.name, Total.labels, Total.value))
    found = {(name, tuple(json.loads(labels))): value for name, labels, value in rows}
    return found, found.pop(_MARK, 0)


def read_mark(connection: Connection) -> int:
    """Return the number of the last attempt that is counted."""
    name, labels = _MARK
    found = connection.execute(
        select(Total.value).where(Total.name == name, Total.labels == json.dumps(labels))
    )
    return found.scalar() or 0


def hold_mark(connection: Connection) -> int:
    """Lock the mark until the transaction ends, so that no other process counts; return it."""
    return _add(connection, _MARK, 0)


def uncounted(connection: Connection, *, after: int, limit: int | None = None) -> list[Try]:
    """Return attempts whose number is above `after`, oldest first."""
    rows = connection.execute(
        select(*_COLUMNS).where(Attempt.id > after).order_by(Attempt.id).limit(limit)
    )
    return [Try(*row) for row in rows]


def settled(connection: Connection, database: Database, *, after: int, limit: int) -> list[Try]:
    """Return the first `limit` attempts above `after`, up to the first one that is too young."""
    young = Attempt.created_at > database.now() - SETTLED_MS
    rows = connection.execute(
        select(young, *_COLUMNS).where(Attempt.id > after).order_by(Attempt.id).limit(limit)
    )
    found: list[Try] = []
    for is_young, *columns in rows:
        if is_young:
            break
        found.append(Try(*columns))
    return found


def add(connection: Connection, counted: Mapping[Series, int], *, up_to: int) -> None:
    """Add figures, and move the mark to the number of the last attempt they are counted from.

    The caller holds the mark.
    """
    for series in sorted(counted):
        _add(connection, series, counted[series])
    name, labels = _MARK
    connection.execute(
        update(Total)
        .where(Total.name == name, Total.labels == json.dumps(labels))
        .values(value=up_to)
    )


def _add(connection: Connection, series: Series, value: int) -> int:
    name, labels = series
    new = insert_into(connection, Total).values(name=name, labels=json.dumps(labels), value=value)
    added: int = connection.execute(
        new.on_conflict_do_update(
            index_elements=[Total.name, Total.labels],
            set_={"value": Total.value + new.excluded.value},
        ).returning(Total.value)
    ).scalar_one()
    return added
