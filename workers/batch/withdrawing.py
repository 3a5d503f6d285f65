"""Take back a pass that a person asked for and no longer wants."""

from __future__ import annotations

from storage import jobs, sessions
from storage.engine import Database
from workers.batch.heal_due import see_to_placeholder
from workers.triggers import Trigger


def withdraw(database: Database, key: int, job_id: int) -> bool:
    """Close a manual batch job of a session unworked; False where a worker has it or it is done.

    A placeholder that waits for its real summary goes on waiting.
    """
    with database.write() as connection:
        sessions.lock(connection, key)
        if not jobs.withdraw(connection, database, job_id, trigger=Trigger.MANUAL):
            return False
        see_to_placeholder(connection, database, key)
    return True
