"""Placeholders that are shown: each gets a job that replaces it by a real summary."""

from __future__ import annotations

from sqlalchemy import Connection

from storage import jobs
from storage.conversations import sessions, summaries
from storage.conversations.summaries import SummaryKind
from storage.engine import Database
from storage.jobs import JobKind
from workers.policy.triggers import BATCH_QUEUE, RULES, Trigger

REPLACE_AFTER_MS = 30_000
"""How long a placeholder is shown before its first replacement is tried."""


def is_placeholder_shown(connection: Connection, key: int) -> bool:
    """Return whether a marker of the session shows a placeholder."""
    live = summaries.all_live(connection, key)
    return any(one.kind is SummaryKind.PLACEHOLDER for one in live)


def ensure_replacement(connection: Connection, database: Database, key: int) -> None:
    """Enqueue a pass that replaces the placeholder if one is shown. An open job of higher priority
    does that too."""
    if not is_placeholder_shown(connection, key):
        return
    jobs.enqueue(
        connection,
        database,
        key,
        kind=JobKind.BATCH,
        queue=BATCH_QUEUE,
        trigger=Trigger.REPLACE_PLACEHOLDER,
        priority=RULES[Trigger.REPLACE_PLACEHOLDER].priority,
        delay_ms=REPLACE_AFTER_MS,
    )


def withdraw(database: Database, key: int, job_id: int) -> bool:
    """Close a manual batch job of a session before it is worked; return False if a worker has it or
    it is done.

    A placeholder that is shown keeps a job that replaces it.
    """
    with database.write() as connection:
        sessions.lock(connection, key)
        if not jobs.withdraw(connection, database, job_id, trigger=Trigger.MANUAL):
            return False
        ensure_replacement(connection, database, key)
    return True
