"""Queues: those that operators have paused, and the owner that the bulk queue has served last.

Jobs of a paused queue are neither notified nor claimed. Running jobs go on, and work is still
enqueued.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import Connection, select, update
from sqlalchemy import text as sql

from storage.engine import Database, insert_into
from storage.models import PAUSED_QUEUE, QueueState


@dataclass(frozen=True, slots=True)
class PausedQueue:
    """A paused queue. `since` is in milliseconds since 1970 (UTC), `reason` in words for people."""

    name: str
    since: int
    reason: str


def pause(
    connection: Connection, database: Database, names: Iterable[str], *, reason: str = ""
) -> None:
    """Pause queues. One that is paused already keeps its time and gets the new reason."""
    now = database.now()
    # In one order, so that two operators never deadlock.
    for name in sorted(names):
        connection.execute(
            insert_into(connection, QueueState)
            .values(name=name, paused_at=now, reason=reason)
            .on_conflict_do_update(
                index_elements=[QueueState.name],
                set_={
                    "paused_at": sql("coalesce(queue_states.paused_at, excluded.paused_at)"),
                    "reason": reason,
                },
            )
        )


def resume(connection: Connection, names: Iterable[str]) -> list[str]:
    """Let queues be worked again; return those that were paused.

    The next reconciler notifies workers of their jobs, except those that were notified within its
    last half minute.
    """
    resumed = connection.execute(
        update(QueueState)
        .where(QueueState.name.in_(sorted(names)), sql(PAUSED_QUEUE))
        .values(paused_at=None, reason="")
        .returning(QueueState.name)
    )
    return sorted(resumed.scalars())


def hold(connection: Connection, name: str) -> str | None:
    """Lock the queue against other callers until the transaction ends; return the owner that was
    served last."""
    held = connection.execute(
        insert_into(connection, QueueState)
        .values(name=name, reason="")
        .on_conflict_do_update(index_elements=[QueueState.name], set_={"name": name})
        .returning(QueueState.last_owner)
    )
    last: str | None = held.scalar_one()
    return last


def note_served(connection: Connection, name: str, owner: str | None) -> None:
    """Record the owner that a locked queue has served last."""
    connection.execute(update(QueueState).where(QueueState.name == name).values(last_owner=owner))


def is_paused(connection: Connection, name: str) -> bool:
    """Return whether a queue is paused."""
    found = connection.execute(
        select(QueueState.name).where(QueueState.name == name, sql(PAUSED_QUEUE))
    )
    return found.first() is not None


def paused(connection: Connection) -> list[PausedQueue]:
    """Return every paused queue, by name."""
    rows = connection.execute(
        select(QueueState.name, QueueState.paused_at, QueueState.reason)
        .where(sql(PAUSED_QUEUE))
        .order_by(QueueState.name)
    )
    return [PausedQueue(row.name, row.paused_at or 0, row.reason) for row in rows]
