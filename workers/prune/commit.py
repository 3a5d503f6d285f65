"""Triggers, mark and undo of pruning (see docs/explanation/pruning.md)."""

from __future__ import annotations

from enum import StrEnum

from sqlalchemy import Connection

from storage import guards
from storage.conversations import pruned, sessions
from storage.conversations.messages import Amount
from storage.conversations.sessions import SessionRecord
from storage.engine import Database
from storage.guards import GuardName
from workers.policy.threshold import session_window
from workers.policy.triggers import TriggerRules
from workers.settings.compression import CompressionSettings

PRUNE_QUEUE = "prune"


class PruneTrigger(StrEnum):
    """The cause of a prune pass."""

    SUPPRESSED = "suppressed"
    """Over the threshold, while cooldown or anti-thrash suppress summaries."""
    PROACTIVE = "proactive"
    """`proactive_prune_tokens` was reached."""
    MANUAL = "manual"
    """A person asked; main switch, mark and the least that a pass must free do not apply."""


PRIORITY = {PruneTrigger.PROACTIVE: 2, PruneTrigger.SUPPRESSED: 4, PruneTrigger.MANUAL: 70}

PRUNE_RULES = TriggerRules(
    PRIORITY[PruneTrigger.PROACTIVE],
    honours_cooldown=False,
    honours_thrash=False,
    honours_no_op=False,
    prunes_first=False,
)
"""Rules for automatic prune passes: only main switch and undo suppress them."""


def set_mark(
    connection: Connection, database: Database, session: SessionRecord, *, growth: int
) -> None:
    """Suppress automatic prune passes until the session has grown by `growth` tokens."""
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
    """Show every row of a session in full again; return how many rows of the view were short, and
    the tokens that came back. The caller has locked the session.

    Automatic passes then wait for the next turn, as after an undo. Pruning waits until the session
    has grown by the tokens that came back, because a person wanted to see the rows.
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
