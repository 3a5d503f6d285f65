"""Find sessions of which something is due and that have no job (ARCHITECTURE.md, *Jobs*).

Whatever is stored makes its job due in the same transaction, so there are none, unless jobs were
lost with a restored backup, given up and thrown away, or left by an older version; and a cooldown
that ends has nobody to tell. The sweep only makes jobs due: what is to be done is decided where it
always is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from sqlalchemy import Connection

from storage import dead_jobs, jobs, overdue
from storage.engine import Database
from storage.jobs import JobKind
from storage.overdue import Place
from workers.runtime.context import Workshop
from workers.triggers import BATCH_QUEUE, RULES, Trigger

Facts: TypeAlias = Mapping[str, Any]
"""What `jobs.make_due` is told of a job."""

TURN_QUEUE = "turns"
SWEPT = "sweep"
"""Trigger of a turn job that was missing."""
RESTED = "cooldown_over"
"""Trigger of a turn job that looks at what a cooldown has held back."""

HEAL_AGAIN_MS = 86_400_000
"""A placeholder whose job has died gets another one after a day: it stands in every request of its
session, and what killed the job may have been mended."""

_PAGE = 200
_PAGES = 50
"""So that 10,000 jobs are made due at once at the most, in short transactions."""


@dataclass(frozen=True, slots=True)
class Swept:
    """Sessions that got a job: with turns that nobody has decided about, with a placeholder that
    nobody was to heal, and those whose cooldown has ended."""

    undecided: int = 0
    unhealed: int = 0
    rested: int = 0

    @property
    def jobs(self) -> int:
        return self.undecided + self.unhealed + self.rested


def sweep(shop: Workshop) -> Swept:
    """Make due what is due and has no job; the next reconciler rings for it.

    Takes no write lock when there is nothing. Any number of sweeps may run at once.
    """
    database = shop.database
    turn: Facts = {"kind": JobKind.TURN, "queue": TURN_QUEUE}
    heal: Facts = {
        "kind": JobKind.BATCH,
        "queue": BATCH_QUEUE,
        "trigger": Trigger.HEAL,
        "strength": RULES[Trigger.HEAL].strength,
    }

    def undecided(connection: Connection, after: Place) -> list[Place]:
        return overdue.undecided(connection, after=after, limit=_PAGE)

    def unhealed(connection: Connection, after: Place) -> list[Place]:
        return overdue.unhealed(
            connection, database, rest_ms=HEAL_AGAIN_MS, after=after, limit=_PAGE
        )

    def rested(connection: Connection, after: Place) -> list[Place]:
        return overdue.rested(connection, database, after=after, limit=_PAGE)

    return Swept(
        undecided=_make_due(database, undecided, {**turn, "trigger": SWEPT}),
        unhealed=_make_due(database, unhealed, heal),
        rested=_make_due(database, rested, {**turn, "trigger": RESTED}),
    )


def _make_due(
    database: Database, find: Callable[[Connection, Place], list[Place]], facts: Facts
) -> int:
    """Make a job due for every session that `find` gives, page by page; gives how many."""
    found, last = 0, Place()
    for _ in range(_PAGES):
        with database.read() as connection:
            page = find(connection, last)
        if page:
            with database.write() as connection:
                # In one order, so that two sweeps never wait for each other crosswise.
                for key in sorted({place.key for place in page}):
                    job = jobs.make_due(connection, database, key, **facts)
                    if job.kind is JobKind.BATCH:
                        dead_jobs.close_replaced(connection, database, key, job.kind, by=job.id)
            found, last = found + len(page), page[-1]
        if len(page) < _PAGE:
            break
    return found
