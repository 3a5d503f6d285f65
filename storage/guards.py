"""Guards: reasons to suppress work of a session, stored where every worker sees them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    bindparam,
    case,
    delete,
    func,
    literal,
    select,
)
from sqlalchemy import text as sql

from storage.engine import Database, clock, insert_into
from storage.models import Guard, Session, table_of
from storage.types import among


class GuardName(StrEnum):
    MICRO_FAILURES = "micro_failures"
    """How often (`count`) the model failed on the exchange that begins at position `subject`."""
    ENDPOINT_FAILURES = "endpoint_failures"
    """How often in a row (`count`) the summariser could not be used at all."""
    DEFRAG_MARK = "defrag_mark"
    """Tokens (`subject`) above which the rolling summary is rewritten, raised after a rewrite
    that was not smaller."""
    UNDONE = "undone"
    """Number (`subject`) of closed turns at the last undo: automatic passes wait for more."""
    COOLDOWN = "cooldown"
    """The end of the rest of automatic passes after the last failed attempt. `detail` is the error
    class, `subject` the fingerprint of the summariser that failed."""
    POOR_PASSES = "poor_passes"
    """How many batch passes in a row (`count`) saved hardly anything; from the second on automatic
    ones are suppressed until `until_at`."""
    NOTHING_TO_COMPACT = "nothing_to_compact"
    """Revision (`subject`) and next position (`count`) at which a batch pass found nothing to do;
    `detail` says why."""
    NOT_SMALLER = "not_smaller"
    """Revision (`subject`) and live tokens (`count`) at which a summary would not have made the
    view smaller."""
    BATCH_FAILURES = "batch_failures"
    """How many batch jobs in a row (`count`) failed while the window was nearly full."""
    PASSES_OF_TURN = "passes_of_turn"
    """How many batch passes (`count`) preflight requested in turn number `subject`."""
    ENGINE_REQUEST = "engine_request"
    """Number (`subject`) of the turn in which a plugin requested a pass."""
    THREAD_SIGNAL = "thread_signal"
    """Number (`subject`) of the turn in which a gateway was asked to have Codex compact."""
    PRUNE_MARK = "prune_mark"
    """Live tokens (`subject`) from which on old tool output is examined again. Valid for the window
    (`count`) and the model (`detail`) that it was set for."""
    INPUT_ROOM = "input_room"
    """Characters (`subject`) of passages allowed in one request, set once one was too long."""


@dataclass(frozen=True, slots=True)
class GuardRecord:
    """A stored guard. Times are milliseconds since 1970 (UTC) by the database's clock; `left_ms` is
    how long it still suppresses work, 0 when it does not or has no time."""

    count: int
    subject: int | None
    until_at: int | None = None
    left_ms: int = 0
    detail: str | None = None
    updated_at: int = field(default=0, compare=False)

    @property
    def is_over(self) -> bool:
        """Whether it had a time that is over."""
        return self.until_at is not None and self.left_ms == 0


@dataclass(frozen=True, slots=True)
class GuardedSession:
    """A guard and its session, for operators."""

    owner: str
    session_id: str
    name: GuardName
    guard: GuardRecord


def read_all(connection: Connection, database: Database, key: int) -> dict[GuardName, GuardRecord]:
    """Return every guard of a session that this version knows."""
    return read_many(connection, database, [key])[key]


def read_many(
    connection: Connection, database: Database, keys: Sequence[int]
) -> dict[int, dict[GuardName, GuardRecord]]:
    """Return the same of several sessions, by their keys; one without guards has an empty entry."""
    found = connection.execute(_read_many(database.dialect, database.offset_ms), {"keys": keys})
    guards: dict[int, dict[GuardName, GuardRecord]] = {key: {} for key in keys}
    for key, name, *record in found:
        guards[key][GuardName(name)] = GuardRecord(*record)
    return guards


def put(
    connection: Connection,
    database: Database,
    key: int,
    name: GuardName,
    *,
    count: int = 0,
    subject: int | None = None,
    detail: str | None = None,
    hold_ms: int | None = None,
) -> None:
    """Set a guard for `hold_ms` from now. One that lasts longer already is never cut short."""
    now = database.now()
    until = None if hold_ms is None else now + hold_ms
    values = {"count": count, "subject": subject, "detail": detail, "updated_at": now}
    former = Guard.until_at
    longest = until if until is None else case((former > until, former), else_=until)
    connection.execute(
        insert_into(connection, Guard)
        .values(session_key=key, name=name, until_at=until, **values)
        .on_conflict_do_update(
            index_elements=[Guard.session_key, Guard.name],
            set_={**values, "until_at": longest},
        )
    )


def clear(connection: Connection, key: int, *names: GuardName) -> None:
    """Delete guards."""
    connection.execute(_clear(names), {"key": key})


def clear_ended(connection: Connection, database: Database, key: int, name: GuardName) -> None:
    """Delete a guard whose time is over."""
    connection.execute(
        delete(Guard).where(
            Guard.session_key == key, Guard.name == name, Guard.until_at <= database.now()
        )
    )


def holding(
    connection: Connection,
    database: Database,
    *,
    names: Sequence[GuardName],
    owner: str | None = None,
    limit: int = 100,
) -> list[GuardedSession]:
    """Return guards of those names over all sessions, or over those of one owner, newest first."""
    query = (
        select(Session.owner, Session.id, Guard.name, *_record(database))
        .join(Session, Session.key == Guard.session_key)
        .where(Guard.name.in_(names))
        .order_by(Guard.updated_at.desc(), Guard.session_key, Guard.name)
        .limit(limit)
    )
    if owner is not None:
        query = query.where(Session.owner == owner)
    return [
        GuardedSession(of, session_id, GuardName(name), GuardRecord(*record))
        for of, session_id, name, *record in connection.execute(query)
    ]


@cache
def _read_many(dialect: str, offset_ms: int) -> Any:
    """Build the statement of `read_many` once: every job runs it."""
    guards = table_of(Guard).c
    return select(guards.session_key, Guard.name, *fields(clock(dialect, offset_ms))).where(
        among(guards.session_key, "keys", dialect), KNOWN
    )


@cache
def _clear(names: tuple[GuardName, ...]) -> Any:
    guards = table_of(Guard)
    return delete(guards).where(guards.c.session_key == bindparam("key"), guards.c.name.in_(names))


# Guards of a newer version are left alone while both versions run.
# As text: with parameters every statement would spell the list out anew.
KNOWN = sql(f"guards.name IN ({', '.join(repr(name.value) for name in GuardName)})")


def _record(database: Database) -> tuple[Any, ...]:
    return fields(database.now())


def fields(now: ColumnElement[int]) -> tuple[Any, ...]:
    """Return the columns of a `GuardRecord`, in its order."""
    left = func.coalesce(Guard.until_at - now, literal(0, BigInteger))
    return (
        Guard.count.expression,
        Guard.subject.expression,
        Guard.until_at.expression,
        case((left > 0, left), else_=0),
        Guard.detail.expression,
        Guard.updated_at.expression,
    )
