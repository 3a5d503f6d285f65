"""The session that a command names."""

from __future__ import annotations

from sqlalchemy import Connection

from storage import sessions
from storage.errors import SessionNotFound
from storage.sessions import SessionRecord


def find_session(connection: Connection, *, owner: str, session_id: str) -> SessionRecord:
    """The owner's session of that id. Raises `SessionNotFound`."""
    found = sessions.find(connection, owner=owner, session_id=session_id)
    if found is None:
        raise SessionNotFound(session_id, owner)
    return found
