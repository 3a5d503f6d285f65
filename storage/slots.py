"""Ticks of a schedule, each taken once, however many beats there are."""

from __future__ import annotations

from sqlalchemy import Connection, delete

from storage.engine import Database, insert_into
from storage.models import ScheduleSlot


def take(connection: Connection, database: Database, schedule: str, *, every_ms: int) -> bool:
    """Take the present tick of a schedule that ticks `every_ms`; False when somebody has it.

    The n-th tick since 1970, by the database's clock, is a row of its own. Ticks that are still to
    come were taken by a clock that has been set back since: they are forgotten, or the schedule
    would stand still until they are over.
    """
    now = database.now()
    connection.execute(
        delete(ScheduleSlot).where(
            ScheduleSlot.schedule == schedule, ScheduleSlot.slot > database.moment() // every_ms
        )
    )
    taken = connection.execute(
        insert_into(connection, ScheduleSlot)
        .values(schedule=schedule, slot=now // every_ms, taken_at=now)
        .on_conflict_do_nothing()
        .returning(ScheduleSlot.slot)
    )
    return taken.first() is not None
