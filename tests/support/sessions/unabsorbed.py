"""The maintained count of what is not absorbed yet, against the rows themselves."""

from __future__ import annotations

from sqlalchemy import text

from storage.conversations.micro_reads import read_state
from storage.engine import Database
from workers.micro.plan import why_nothing_due
from workers.settings.compression import CompressionSettings
from workers.turn.due import least_for_micro

_WRONG = """
SELECT s."key", s.unabsorbed_tokens, COALESCE(SUM(m.tokens), 0)
FROM sessions s
LEFT JOIN cursors c ON c.session_key = s."key" AND c.name = 'micro'
LEFT JOIN messages m ON m.session_key = s."key" AND m.active = 1 AND m.kind = 'message'
    AND m.position >= COALESCE(c.position, 0)
WHERE s."key" = COALESCE(CAST(:key AS BIGINT), s."key")
GROUP BY s."key", s.unabsorbed_tokens
HAVING s.unabsorbed_tokens <> COALESCE(SUM(m.tokens), 0)
"""


def check_unabsorbed(database: Database, key: int | None = None) -> None:
    """Fail where a session's count is not what its rows hold; of one session, or of all."""
    with database.read() as connection:
        wrong = connection.execute(text(_WRONG), {"key": key}).all()
    assert not wrong, f"session, counted, by its rows: {wrong}"


def ruled_out(database: Database, key: int, settings: CompressionSettings) -> tuple[bool, bool]:
    """Return whether the count alone rules a micro pass out, and whether the rows do."""
    check_unabsorbed(database, key)
    with database.read() as connection:
        state = read_state(connection, database, key)
        least = least_for_micro(state.session, settings)
        by_count = least is None or state.session.unabsorbed_tokens < least
        return by_count, why_nothing_due(connection, state, settings) is not None
