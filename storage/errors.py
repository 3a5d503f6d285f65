"""Errors of the shared database.

StorageError
├── DatabaseUnavailable
├── SchemaOutdated
├── EventConflict
├── SessionNotFound
├── SessionClash
└── FenceLost
"""

from __future__ import annotations


class StorageError(Exception):
    """The shared database could not do what was asked; nothing of it was done."""


class DatabaseUnavailable(StorageError):
    """The database did not answer or refused. Nothing was stored, unless the text says that the
    commit failed; either way the same call with the same event id may be repeated."""


class SchemaOutdated(StorageError):
    """The database's tables are not those of this version. Run `afterturn db upgrade`."""


class EventConflict(StorageError):
    """This event id was used before in the session with other messages. Nothing was stored.

    Use a new id for each turn and the same id only to repeat the same turn.
    """

    def __init__(self, session_id: str, event_id: str) -> None:
        super().__init__(
            f"session {session_id!r}: event {event_id!r} was stored before with other messages; "
            "give every turn an id of its own and repeat an id only with the same messages"
        )
        self.session_id = session_id
        self.event_id = event_id


class SessionNotFound(StorageError):
    """The owner has no session of that id. Open it first."""

    def __init__(self, session_id: str, owner: str) -> None:
        super().__init__(
            f"owner {owner!r} has no session {session_id!r}; create it with open_session"
        )
        self.session_id = session_id
        self.owner = owner


class SessionClash(StorageError):
    """What was asked of a session contradicts another one of the same owner (title, chat)."""


class FenceLost(StorageError):
    """The job was claimed by somebody else meanwhile. What this holder made is void."""

    def __init__(self, job_id: int, fence: int) -> None:
        super().__init__(f"job {job_id}: fence {fence} is no longer the newest; result discarded")
        self.job_id = job_id
        self.fence = fence
