"""Make sure that a placeholder which is shown will be replaced (ENGINE.md §10)."""

from __future__ import annotations

from sqlalchemy import Connection

from storage import jobs, summaries
from storage.engine import Database
from storage.jobs import JobKind
from storage.summaries import SummaryKind
from workers.batch.ladder import HEAL_MS
from workers.triggers import BATCH_QUEUE, RULES, Trigger


def is_placeholder_shown(connection: Connection, key: int) -> bool:
    """Whether a marker of the session shows a placeholder."""
    live = summaries.all_live(connection, key)
    return any(one.kind is SummaryKind.PLACEHOLDER for one in live)


def see_to_placeholder(connection: Connection, database: Database, key: int) -> None:
    """Make a pass that heals due where a placeholder is shown; a stronger one does that too."""
    if not is_placeholder_shown(connection, key):
        return
    jobs.make_due(
        connection,
        database,
        key,
        kind=JobKind.BATCH,
        queue=BATCH_QUEUE,
        trigger=Trigger.HEAL,
        strength=RULES[Trigger.HEAL].strength,
        delay_ms=HEAL_MS,
    )
