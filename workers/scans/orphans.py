"""Recover orphans: sessions for which something is due but that have no job.

Every write enqueues its job in the same transaction, so there are none unless jobs were lost with a
restored backup, dead-lettered and deleted, or never enqueued by an older version. The scan also
finds cooldowns that have ended, which nothing else does. It only enqueues; the job decides what to
do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from sqlalchemy import Connection

from storage import jobs, scheduling
from storage.engine import Database
from storage.jobs import JobKind, dead_jobs
from storage.scheduling import Place
from workers.policy.triggers import BATCH_QUEUE, RULES, Trigger
from workers.runtime.context import WorkerContext

Facts: TypeAlias = Mapping[str, Any]
"""Keyword arguments of `jobs.enqueue`."""

TURN_QUEUE = "turns"
ORPHANED = "orphaned"
"""Trigger of a turn job that was missing."""
COOLDOWN_OVER = "cooldown_over"
"""Trigger of a turn job that decides about what a cooldown suppressed."""

REPLACE_AGAIN_MS = 86_400_000
"""Delay before a placeholder whose job is dead gets another one: it is part of every request of its
session, and the cause of the crash may have been fixed."""

_PAGE = 200
_PAGES = 50
"""Limits one scan to 10,000 jobs, in short transactions."""


@dataclass(frozen=True, slots=True)
class Orphans:
    """Counts of sessions that got a job: with undecided turns, with a placeholder that had no job
    to replace it, and with a cooldown that has ended."""

    undecided: int = 0
    placeholders: int = 0
    cooled_down: int = 0

    @property
    def jobs(self) -> int:
        return self.undecided + self.placeholders + self.cooled_down


def recover_orphans(context: WorkerContext) -> Orphans:
    """Enqueue what is due and has no job; the next reconciler notifies of it.

    Takes no write lock if there is nothing to do. Any number of scans may run at once.
    """
    database = context.database
    turn: Facts = {"kind": JobKind.TURN, "queue": TURN_QUEUE}
    replace: Facts = {
        "kind": JobKind.BATCH,
        "queue": BATCH_QUEUE,
        "trigger": Trigger.REPLACE_PLACEHOLDER,
        "priority": RULES[Trigger.REPLACE_PLACEHOLDER].priority,
    }

    def undecided(connection: Connection, after: Place) -> list[Place]:
        return scheduling.undecided(connection, after=after, limit=_PAGE)

    def placeholders(connection: Connection, after: Place) -> list[Place]:
        return scheduling.unreplaced_placeholders(
            connection, database, rest_ms=REPLACE_AGAIN_MS, after=after, limit=_PAGE
        )

    def cooled_down(connection: Connection, after: Place) -> list[Place]:
        return scheduling.rested(connection, database, after=after, limit=_PAGE)

    return Orphans(
        undecided=_enqueue(database, undecided, {**turn, "trigger": ORPHANED}),
        placeholders=_enqueue(database, placeholders, replace),
        cooled_down=_enqueue(database, cooled_down, {**turn, "trigger": COOLDOWN_OVER}),
    )


def _enqueue(
    database: Database, find: Callable[[Connection, Place], list[Place]], facts: Facts
) -> int:
    """Enqueue a job for every session that `find` returns, page by page; return how many."""
    found, last = 0, Place()
    for _ in range(_PAGES):
        with database.read() as connection:
            page = find(connection, last)
        if page:
            with database.write() as connection:
                # Sorted, so that two scans never deadlock.
                for key in sorted({place.key for place in page}):
                    job = jobs.enqueue(connection, database, key, **facts)
                    if job.kind is JobKind.BATCH:
                        dead_jobs.close_replaced(connection, database, key, job.kind, by=job.id)
            found, last = found + len(page), page[-1]
        if len(page) < _PAGE:
            break
    return found
