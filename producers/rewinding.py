"""Where to cut when turns are taken back."""

from __future__ import annotations

from sqlalchemy import Connection

from storage import messages
from storage.errors import StorageError
from storage.sessions import SessionRecord


class RewindError(StorageError):
    """The session has no such turn to go back to. Nothing was changed."""


def find_cut(
    connection: Connection, record: SessionRecord, *, turns: int, to_position: int | None
) -> int:
    """The position where the last `turns` turns start, or `to_position` if a turn starts there.

    Raises `RewindError`.
    """
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
