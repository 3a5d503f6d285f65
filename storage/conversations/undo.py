"""Undo the last compaction, or rewind the last turns.

Both only follow the links that compactions left: every archived row names the summary that
absorbed it, every summary the one it replaced and the cursor before it.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection

from storage import guards
from storage.conversations import cursors, messages, pruned, sessions, summaries
from storage.conversations.cursors import CursorName
from storage.conversations.summaries import SummaryKind, SummaryRecord, SummaryStatus
from storage.engine import Database
from storage.guards import GuardName


@dataclass(frozen=True, slots=True)
class Undone:
    """A compaction that was undone: its summary, and how many rows were restored."""

    summary_id: int
    kind: SummaryKind
    rows_restored: int


@dataclass(frozen=True, slots=True)
class Rewound:
    """Turns that were rewound: everything from position `cut` on.

    `rows` were marked as rewound; `summaries_undone` reached past the cut.
    """

    cut: int
    rows: int
    summaries_undone: int


def undo_newest(connection: Connection, database: Database, key: int) -> Undone | None:
    """Undo the newest compaction that is shown; None when there is none.

    The caller holds the session's row. Automatic passes then wait for the next turn.
    """
    newest = summaries.newest_live(connection, key)
    if newest is None:
        return None
    undone = _take_back(connection, key, newest)
    turns = sessions.fetch(connection, key).turns
    guards.put(connection, database, key, GuardName.UNDONE, subject=turns)
    return undone


def rewind_to(connection: Connection, key: int, cut: int) -> Rewound:
    """Rewind everything from position `cut` on, which is where a turn starts.

    The caller holds the session's row. First every summary that reaches past the cut is undone,
    newest first, so that what it covers before the cut is live again.
    """
    undone = 0
    while any(summary.last_position >= cut for summary in summaries.all_live(connection, key)) and (
        newest := summaries.newest_live(connection, key)
    ):
        _take_back(connection, key, newest)
        undone += 1
    # What pointed at an output after the cut is shown in full again.
    back = pruned.restore_for_rewind(connection, key, cut=cut)
    left, marked = messages.rewind(connection, key, cut=cut)
    if cursors.read(connection, key, CursorName.MICRO) > cut:
        cursors.move(connection, key, CursorName.MICRO, cut)
    sessions.count_change(
        connection,
        key,
        messages=-left.messages,
        tokens=back.tokens - left.tokens,
        saved=-back.tokens,
    )
    sessions.close_turn(connection, key)
    return Rewound(cut, marked, undone)


def _take_back(connection: Connection, key: int, summary: SummaryRecord) -> Undone:
    if summary.kind.in_place and summary.replaces is not None:
        former = summaries.fetch(connection, summary.replaces)
        messages.change_marker(
            connection, key, shows=summary.id, summary_id=former.id, tokens=former.tokens
        )
        summaries.set_status(connection, [former.id], SummaryStatus.LIVE)
        rows, tokens = 0, former.tokens - summary.tokens
        restored = 0
    else:
        withdrawn = messages.withdraw_marker(connection, key, summary.id)
        summaries.revive_shown_by(connection, summary.id)
        back = messages.restore(connection, summary.id)
        cursors.move(connection, key, CursorName.MICRO, summary.cursor_before)
        rows = back.messages - withdrawn.messages
        tokens = back.tokens - withdrawn.tokens
        restored = back.messages
    summaries.set_status(connection, [summary.id], SummaryStatus.UNDONE)
    sessions.count_change(connection, key, messages=rows, tokens=tokens, saved=-tokens)
    guards.clear(connection, key, GuardName.MICRO_FAILURES, GuardName.DEFRAG_MARK)
    return Undone(summary.id, summary.kind, restored)
