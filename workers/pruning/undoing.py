"""Show old tool output in full again (ENGINE.md §2)."""

from __future__ import annotations

from sqlalchemy import Connection

from storage import guards, pruned, sessions
from storage.engine import Database
from storage.guards import GuardName
from storage.messages import Amount
from storage.sessions import SessionRecord
from workers.pruning.commit import set_mark
from workers.settings import CompressionSettings


def unprune(
    connection: Connection,
    database: Database,
    session: SessionRecord,
    settings: CompressionSettings,
) -> Amount:
    """Show every row of a session in full again; gives how many of the view that were, and the
    tokens that came back. The caller holds the session's row.

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
