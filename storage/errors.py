"""Every error of the package, in one tree.

AfterturnError                   each says by `repeatable` whether the same call may be repeated
├── StorageError                 the database could not do what was asked
│   ├── DatabaseUnavailable      no answer, or a failed commit (repeatable)
│   ├── SchemaOutdated           tables of another version
│   ├── EventConflict            an event id with other messages than before
│   ├── SessionNotFound          the owner has no such session
│   ├── SessionClash             another session has the chat or title
│   ├── FenceLost                another process claimed the job meanwhile
│   ├── RewindError              no such turn to go back to            (producers.undoing)
│   ├── OutputNotFound           no such output behind a handle        (producers.reading)
│   ├── SearchMarkError          the page belongs to another search    (storage.search)
│   ├── RebuildOvertaken         a newer rebuild of the index runs     (storage.search)
│   └── RunStateError            a bulk run is in another state        (workers.scans)
├── InputError                   an argument cannot be used; also a ValueError
│   ├── RequestError             what was requested                    (producers.arguments)
│   │   ├── IdentifierError      a name                                (producers.arguments)
│   │   └── WindowError          a window or a reserve                 (producers.arguments)
│   ├── UsageError               a provider's usage report             (producers.turn)
│   ├── MessageError             a message                             (workers.conversation)
│   ├── HandleError              a handle of tool output               (workers.prune)
│   ├── RenderingError           rows that were loaded without text    (workers.rendering)
│   └── NoUsableWindowError      a session's window leaves no room     (workers.policy.threshold)
├── SettingsError                the configuration cannot be used      (workers.settings)
│   └── EndpointError            the key of a provider is missing      (workers.summariser)
├── ImportRefused                a file cannot be imported             (producers.importing)
├── BadRowError                  a row of such a file                  (producers.importing)
├── CompressionStuck             a session cannot be made smaller      (producers.results)
└── SummariserError              no usable summary (repeatable)         (workers.summariser)
"""

from __future__ import annotations

from typing import ClassVar


class AfterturnError(Exception):
    """Base of every error that this package raises on purpose.

    `repeatable` says whether the same call, with the same arguments, may be repeated and can
    succeed without anything being corrected first. Nothing is ever half done: an error whose
    docstring does not say otherwise left the database as it was.
    """

    repeatable: ClassVar[bool] = False


class InputError(AfterturnError, ValueError):
    """An argument cannot be used. Nothing was stored; correct the argument."""


class StorageError(AfterturnError):
    """The shared database could not do what was asked; nothing of it was done."""


class DatabaseUnavailable(StorageError):
    """The database did not answer or refused. Nothing was stored, unless the text says that the
    commit failed; either way the same call with the same event id may be repeated."""

    repeatable = True


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
    """Another session of the owner has the title or chat. Close that one first."""


class FenceLost(StorageError):
    """Another process claimed the job meanwhile, so the result of this one was discarded."""

    def __init__(self, job_id: int, fence: int) -> None:
        super().__init__(f"job {job_id}: fence {fence} is no longer the newest; result discarded")
        self.job_id = job_id
        self.fence = fence
