"""The writes of a pruning pass: all of them, or none."""

from __future__ import annotations

from sqlalchemy import Connection

from storage import guards, pruned, sessions
from storage.engine import Database
from storage.guards import GuardName
from storage.sessions import SessionRecord
from workers.closing import StaleError
from workers.limits import session_window
from workers.pruning.plan import PrunePlan


def commit_prune(connection: Connection, plan: PrunePlan) -> SessionRecord:
    """Store the short forms and count them in; gives the session as it is then.

    The caller holds the session's row at the planned revision. Raises `StaleError`.
    """
    key = plan.session.key
    if pruned.shorten(connection, key, plan.forms) != len(plan.rows):
        raise StaleError
    return sessions.count_change(
        connection, key, messages=0, tokens=-plan.spared, passes=1, saved=plan.spared
    )


def set_mark(
    connection: Connection, database: Database, session: SessionRecord, *, growth: int
) -> None:
    """Let the next pass come only when the session has grown by `growth` tokens (ENGINE.md §8)."""
    guards.put(
        connection,
        database,
        session.key,
        GuardName.PRUNE_MARK,
        count=session_window(session),
        subject=session.live_tokens + growth,
        detail=session.model,
    )
