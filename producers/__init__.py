"""What a gateway imports: finish turns, load the context, take turns or compactions back."""

from producers.context import Context
from producers.doorbell import Doorbell
from producers.gateway import Gateway, Receipt, RewindError
from producers.identifiers import IdentifierError
from producers.session import Session
from producers.usage import Usage, UsageError
from producers.windows import WindowError
from storage.errors import (
    DatabaseUnavailable,
    EventConflict,
    SessionClash,
    SessionNotFound,
    StorageError,
)
from storage.rows import Origin
from storage.undo import Rewound, Undone
from workers.messages import MessageError
from workers.rendering import Dialect

__all__ = [
    "Context",
    "DatabaseUnavailable",
    "Dialect",
    "Doorbell",
    "EventConflict",
    "Gateway",
    "IdentifierError",
    "MessageError",
    "Origin",
    "Receipt",
    "RewindError",
    "Rewound",
    "Session",
    "SessionClash",
    "SessionNotFound",
    "StorageError",
    "Undone",
    "Usage",
    "UsageError",
    "WindowError",
]
