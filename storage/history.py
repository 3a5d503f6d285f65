"""RecentAttempts attempts, in one session or in all: figures for operators, never text."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Text, func, or_, select, type_coerce
from sqlalchemy import text as sql

from storage.attempts import AttemptRecord
from storage.engine import Database
from storage.models import MESSAGE_ROW, Attempt, Message, ScheduleSlot, Session, Summary

LOOKED_AT = 10_000
"""Attempts, newest first, that an overview of all sessions reads, so that its cost does not grow
with the history."""

_DAY_MS = 86_400_000
_FIELDS = tuple(AttemptRecord.__dataclass_fields__)
_COLUMNS = (
    Attempt.id,
    Session.owner,
    Session.id.label("session"),
    Attempt.created_at,
    *(getattr(Attempt, name) for name in _FIELDS),
)


@dataclass(frozen=True, slots=True)
class TryRecord:
    """An attempt with its place and time. `at` is its end in milliseconds since 1970 (UTC)."""

    id: int
    owner: str
    session: str
    at: int
    attempt: AttemptRecord


@dataclass(frozen=True, slots=True)
class WhichTries:
    """A filter of attempts; None and empty match all. `key` is one session's."""

    owner: str | None = None
    key: int | None = None
    kinds: Collection[str] = ()
    triggers: Collection[str] = ()
    outcomes: Collection[str] = ()
    since_ms: int | None = None


@dataclass(frozen=True, slots=True)
class RecentAttempts:
    """Sums over recent attempts: how many by outcome, requests to models, their tokens, and the
    median and the longest time of an answered request, in milliseconds."""

    outcomes: Mapping[str, int]
    requests: int
    prompt_tokens: int
    completion_tokens: int
    tokens_saved: int
    model_ms_p50: int | None
    model_ms_most: int | None


@dataclass(frozen=True, slots=True)
class SessionTotals:
    """Sums over all sessions: how many, how many were active within a day, their live tokens."""

    sessions: int
    active: int
    live_tokens: int
    passes: int
    tokens_saved: int


def newest(
    connection: Connection, which: WhichTries, *, before: int | None = None, limit: int
) -> list[TryRecord]:
    """Return the newest attempts with numbers below `before`, newest first."""
    query = _select(which).order_by(Attempt.id.desc()).limit(limit)
    return _read(connection, query if before is None else query.where(Attempt.id < before))


def after(connection: Connection, which: WhichTries, *, number: int, limit: int) -> list[TryRecord]:
    """Return the oldest attempts above `number`, oldest first, for callers that follow them."""
    return _read(
        connection, _select(which).where(Attempt.id > number).order_by(Attempt.id).limit(limit)
    )


def recent_attempts(connection: Connection, database: Database, *, ms: int) -> RecentAttempts:
    """Add up the attempts of the last `ms` milliseconds; at most the last ten thousand."""
    last = connection.execute(select(func.max(Attempt.id))).scalar_one() or 0
    rows = connection.execute(
        select(
            type_coerce(Attempt.outcome, Text),
            Attempt.requests,
            Attempt.prompt_tokens,
            Attempt.completion_tokens,
            Attempt.tokens_before - Attempt.tokens_after,
            Attempt.model_ms,
        ).where(Attempt.id > last - LOOKED_AT, Attempt.created_at >= database.moment() - ms)
    ).all()
    outcomes: dict[str, int] = {}
    for row in rows:
        outcomes[row[0]] = outcomes.get(row[0], 0) + 1
    times = sorted(row[5] // row[1] for row in rows if row[1] and row[5])
    return RecentAttempts(
        outcomes=dict(sorted(outcomes.items(), key=lambda one: (-one[1], one[0]))),
        requests=sum(row[1] for row in rows),
        prompt_tokens=sum(row[2] or 0 for row in rows),
        completion_tokens=sum(row[3] or 0 for row in rows),
        tokens_saved=sum(row[4] for row in rows),
        model_ms_p50=times[len(times) // 2] if times else None,
        model_ms_most=times[-1] if times else None,
    )


def session_totals(connection: Connection, database: Database) -> SessionTotals:
    """Add up the sessions of every owner."""
    row = connection.execute(
        select(
            func.count(),
            func.coalesce(func.sum(Session.live_tokens), 0),
            func.coalesce(func.sum(Session.passes), 0),
            func.coalesce(func.sum(Session.tokens_saved), 0),
        ).select_from(Session)
    ).one()
    active = connection.execute(
        select(func.count())
        .select_from(Session)
        .where(Session.active_at >= database.moment() - _DAY_MS)
    ).scalar_one()
    return SessionTotals(int(row[0]), int(active), int(row[1]), int(row[2]), int(row[3]))


def since_tick_ms(connection: Connection, database: Database) -> dict[str, int]:
    """Return how long ago each schedule last ticked, in milliseconds, by its name."""
    now = database.now()
    rows = connection.execute(
        select(ScheduleSlot.schedule, now - func.max(ScheduleSlot.taken_at)).group_by(
            ScheduleSlot.schedule
        )
    )
    return {name: max(0, int(ms)) for name, ms in rows}


def _select(which: WhichTries) -> Any:
    query = select(*_COLUMNS).join(Session, Session.key == Attempt.session_key)
    if which.owner is not None:
        query = query.where(Session.owner == which.owner)
    if which.key is not None:
        query = query.where(Attempt.session_key == which.key)
    for column, wanted in (
        (Attempt.kind, which.kinds),
        (Attempt.trigger, which.triggers),
        (Attempt.outcome, which.outcomes),
    ):
        if wanted:
            query = query.where(column.in_(list(wanted)))
    if which.since_ms is not None:
        query = query.where(Attempt.created_at >= which.since_ms)
    return query


def _read(connection: Connection, query: Any) -> list[TryRecord]:
    return [
        TryRecord(row[0], row[1], row[2], row[3], AttemptRecord(*row[4:]))
        for row in connection.execute(query)
    ]


@dataclass(frozen=True, slots=True)
class RowFigures:
    """A live or archived message. `tokens` are those of its original; `hidden` says that it was
    archived before it was imported."""

    position: int
    role: str
    tokens: int
    opens_turn: bool
    hidden: bool
    at: int


@dataclass(frozen=True, slots=True)
class PassFigures:
    """An attempt at a pass: live tokens before and after it, and the model's usage."""

    kind: str
    trigger: str
    outcome: str
    tokens_before: int
    tokens_after: int
    prompt_tokens: int
    completion_tokens: int
    model: str
    at: int


def rows(connection: Connection, key: int, *, imported: str) -> list[RowFigures]:
    """Return every message of a session in order of position. `imported` is the template of
    summaries that were imported with it."""
    found = connection.execute(
        select(
            Message.position,
            type_coerce(Message.role, Text),
            Message.tokens + func.coalesce(Message.spared_tokens, 0),
            Message.opens_turn,
            func.coalesce(Summary.template, "") == imported,
            Message.created_at,
        )
        .outerjoin(Summary, Summary.id == Message.absorbed_by)
        .where(
            Message.session_key == key,
            sql(f"messages.{MESSAGE_ROW}"),
            or_(Message.active == 1, Message.compacted == 1),
        )
        .order_by(Message.position)
    )
    return [
        RowFigures(position, role or "", tokens, opens == 1, bool(hidden), at)
        for position, role, tokens, opens, hidden, at in found
    ]


def passes(connection: Connection, key: int) -> list[PassFigures]:
    """Return every stored attempt of a session, oldest first."""
    found = connection.execute(
        select(
            Attempt.kind,
            Attempt.trigger,
            Attempt.outcome,
            Attempt.tokens_before,
            Attempt.tokens_after,
            func.coalesce(Attempt.prompt_tokens, 0),
            func.coalesce(Attempt.completion_tokens, 0),
            Attempt.model,
            Attempt.created_at,
        )
        .where(Attempt.session_key == key)
        .order_by(Attempt.id)
    )
    return [PassFigures(*row) for row in found]


def most_saving(connection: Connection, *, owner: str | None, limit: int) -> Sequence[int]:
    """Return keys of sessions that had a pass, in descending order of tokens saved."""
    query = select(Session.key).where(Session.passes > 0)
    if owner is not None:
        query = query.where(Session.owner == owner)
    query = query.order_by(Session.tokens_saved.desc(), Session.key).limit(limit)
    return list(connection.execute(query).scalars())
