"""Undoing of turns, of a compaction, or of the short form of old tool output."""

from __future__ import annotations

from dataclasses import asdict

from sqlalchemy import Connection

from storage import audit
from storage.audit import AuditAction
from storage.conversations import messages, undo
from storage.conversations.messages import Amount
from storage.conversations.sessions import SessionRecord
from storage.conversations.undo import Rewound, Undone
from storage.engine import Database
from storage.errors import StorageError
from workers.batch.placeholders import ensure_replacement
from workers.prune import commit
from workers.settings import CompressionSettings


class RewindError(StorageError):
    """A request to take back a turn that the session does not have. Nothing was changed."""


def rewind(
    connection: Connection,
    database: Database,
    record: SessionRecord,
    *,
    turns: int,
    to_position: int | None,
    actor: str,
) -> Rewound:
    """Take back the last `turns` turns, or all from the one that starts at `to_position`.

    The caller must have locked the session's row. Raises `RewindError`.
    """
    cut = _find_cut(connection, record, turns=turns, to_position=to_position)
    rewound = undo.rewind_to(connection, record.key, cut)
    _audit(connection, database, record, AuditAction.REWOUND, rewound, actor=actor)
    ensure_replacement(connection, database, record.key)
    return rewound


def undo_newest(
    connection: Connection, database: Database, record: SessionRecord, *, actor: str
) -> Undone | None:
    """Take back the newest compaction; return None without one. Requires a locked row."""
    undone = undo.undo_newest(connection, database, record.key)
    if undone is not None:
        _audit(connection, database, record, AuditAction.UNDONE, undone, actor=actor)
    ensure_replacement(connection, database, record.key)
    return undone


def unprune(
    connection: Connection,
    database: Database,
    record: SessionRecord,
    settings: CompressionSettings,
    *,
    actor: str,
) -> Amount:
    """Show old tool output in full again and return its amount. Requires a locked row."""
    back = commit.unprune(connection, database, record, settings)
    if back.messages:
        _audit(connection, database, record, AuditAction.UNPRUNED, back, actor=actor)
    return back


def _find_cut(
    connection: Connection, record: SessionRecord, *, turns: int, to_position: int | None
) -> int:
    if to_position is not None:
        if not messages.starts_turn(connection, record.key, to_position):
            raise RewindError(f"session {record.id!r}: no turn starts at position {to_position}")
        return to_position
    starts = messages.turn_starts(connection, record.key, newest=max(turns, 1))
    if turns < 1 or len(starts) < turns:
        raise RewindError(
            f"session {record.id!r}: {turns} turns cannot be taken back, it has {len(starts)}"
        )
    return starts[-1]


def _audit(
    connection: Connection,
    database: Database,
    record: SessionRecord,
    action: AuditAction,
    facts: Rewound | Undone | Amount,
    *,
    actor: str,
) -> None:
    audit.record(
        connection,
        database,
        action,
        actor=actor,
        owner=record.owner,
        session=record.id,
        facts=asdict(facts),
    )
