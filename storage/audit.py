"""The audit trail: who or what acted. Figures and names, never text."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any

from sqlalchemy import Connection, Text, bindparam, insert, or_, select, type_coerce

from storage.engine import Database, clock
from storage.models import AuditEntry, Session, table_of

_AUDIT = table_of(AuditEntry)
_A = AuditEntry


class AuditAction(StrEnum):
    COMPACTED = "compacted"
    """A batch pass changed the live view. Facts: outcome, trigger, tokens before and after, model,
    summary."""
    MICRO_COMPACTED = "micro_compacted"
    """A micro pass changed the live view. There is one for nearly every turn."""
    PRUNED = "pruned"
    """Old tool output was shortened."""
    COMPACTION_ASKED = "compaction_asked"
    """A person requested a pass that skips every guard."""
    UNDONE = "undone"
    REWOUND = "rewound"
    RESET = "reset"
    """A session that could not be compacted any more was cut down to its newest turn."""
    UNPRUNED = "unpruned"
    GUARD_CLEARED = "guard_cleared"
    BREAKER_CLOSED = "breaker_closed"
    JOB_DROPPED = "job_dropped"
    JOB_RETRIED = "job_retried"
    QUEUE_PAUSED = "queue_paused"
    QUEUE_RESUMED = "queue_resumed"
    SEARCHED_ACROSS_OWNERS = "searched_across_owners"
    """An operator read sessions of all owners."""
    DELETED = "deleted"
    """Records were deleted (block `retention`). Facts: how many of which kind."""
    IMPORTED = "imported"
    BULK_STARTED = "bulk_started"
    BULK_STOPPED = "bulk_stopped"
    BULK_RESUMED = "bulk_resumed"
    BULK_ENDED = "bulk_ended"


@dataclass(frozen=True, slots=True)
class Entry:
    """One act. `id` grows; `owner` and `session` are None where the act concerns none, `action` is
    an `AuditAction` or a newer version's word; `at` is in milliseconds since 1970 (UTC)."""

    id: int
    owner: str | None
    session: str | None
    actor: str
    action: str
    facts: Mapping[str, Any]
    at: int


@dataclass(frozen=True, slots=True)
class Which:
    """A filter of entries; None and empty match all."""

    owner: str | None = None
    session: str | None = None
    actions: Collection[str] = ()
    without: Collection[str] = ()
    actor: str | None = None
    since_ms: int | None = None


def record(
    connection: Connection,
    database: Database,
    action: AuditAction,
    *,
    actor: str,
    owner: str | None = None,
    session: str | None = None,
    facts: Mapping[str, Any] | None = None,
) -> None:
    """Record an act in the caller's transaction: both are stored, or neither.

    `actor` says who or what it was: a person at a host, a gateway, a worker. `facts` are figures
    and names, never what a conversation says.
    """
    connection.execute(
        _insert(database.dialect, database.offset_ms),
        {
            "owner": owner,
            "session": session,
            "actor": actor,
            "action": action,
            "facts": json.dumps(facts or {}),
        },
    )


def record_of(
    connection: Connection,
    database: Database,
    key: int,
    action: AuditAction,
    *,
    actor: str,
    facts: Mapping[str, Any] | None = None,
) -> None:
    """Record an act, as `record` does, of the session with that key."""
    owner, session = connection.execute(
        select(Session.owner, Session.id).where(Session.key == key)
    ).one()
    record(connection, database, action, actor=actor, owner=owner, session=session, facts=facts)


def page(
    connection: Connection, which: Which, *, before: int | None = None, limit: int = 100
) -> list[Entry]:
    """Return the newest entries below the number `before`, newest first."""
    query = _select(which).order_by(_A.id.desc()).limit(limit)
    return _entries(connection, query if before is None else query.where(_A.id < before))


def after(connection: Connection, which: Which, *, number: int, limit: int = 100) -> list[Entry]:
    """Return the oldest entries above `number`, oldest first, for callers that follow the trail."""
    return _entries(connection, _select(which).where(_A.id > number).order_by(_A.id).limit(limit))


def _select(which: Which) -> Any:
    query = select(_A.id, _A.owner, _A.session, _A.actor, _A.action, _A.facts, _A.created_at)
    if which.owner is not None:
        # An entry without an owner concerns every owner: a paused queue, a closed breaker.
        query = query.where(or_(_A.owner == which.owner, _A.owner.is_(None)))
    if which.session is not None:
        query = query.where(_A.session == which.session)
    if which.actions:
        query = query.where(type_coerce(_A.action, Text).in_(list(which.actions)))
    if which.without:
        query = query.where(type_coerce(_A.action, Text).not_in(list(which.without)))
    if which.actor is not None:
        query = query.where(_A.actor.contains(which.actor, autoescape=True))
    if which.since_ms is not None:
        query = query.where(_A.created_at >= which.since_ms)
    return query


def _entries(connection: Connection, query: Any) -> list[Entry]:
    return [
        Entry(row.id, row.owner, row.session, row.actor, row.action, json.loads(row.facts), row[6])
        for row in connection.execute(query)
    ]


@cache
def _insert(dialect: str, offset_ms: int) -> Any:
    """Build the statement of `record` once: every pass runs it. It does not return the row's id."""
    names = ("owner", "session", "actor", "action", "facts")
    given: dict[str, Any] = {name: bindparam(name) for name in names}
    return insert(_AUDIT).values(**given, created_at=clock(dialect, offset_ms)).inline()
