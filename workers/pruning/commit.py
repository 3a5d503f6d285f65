"""The writes of pruning, and their reversal."""

from __future__ import annotations

from sqlalchemy import Connection

from storage import guards, pruned, sessions
from storage.engine import Database
from storage.guards import GuardName
from storage.messages import Amount
from storage.sessions import SessionRecord
from workers.limits import session_window
from workers.settings.compression import CompressionSettings


def set_mark(
    connection: Connection, database: Database, session: SessionRecord, *, growth: int
) -> None:
    """Let the next pass come only when the session has grown by `growth` tokens."""
    guards.put(
        connection,
        database,
        session.key,
        GuardName.PRUNE_MARK,
        count=session_window(session),
        subject=session.live_tokens + growth,
        detail=session.model,
    )


def unprune(
    connection: Connection,
    database: Database,
    session: SessionRecord,
    settings: CompressionSettings,
) -> Amount:
    """Show every row of a session in full again; return how many rows of the view that were, and
    the tokens that came back. The caller has locked the session.

    Automatic passes then wait for the next turn, as after an undo, and pruning until the session
    has grown by as much again: somebody wanted to see it.
    """
    back = pruned.restore(connection, session.key)
    if not back.messages:
        return back
    now = sessions.count_change(
        connection, session.key, messages=0, tokens=back.tokens, saved=-back.tokens
    )
    guards.put(connection, database, session.key, GuardName.UNDONE, subject=now.turns)
    growth = max(back.tokens, settings.proactive_prune_min_reclaim_tokens)
    set_mark(connection, database, now, growth=growth)
    return back
