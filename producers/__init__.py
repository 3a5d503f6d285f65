"""The public names of a gateway, each loaded when it is first used. `afterturn` has the same."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from workers.provider_errors.errors import ApiErrorKind

if TYPE_CHECKING:
    from producers.arguments import IdentifierError, RequestError, WindowError
    from producers.gateway import Gateway
    from producers.notify import Notifier
    from producers.reading import Context, Output, OutputNotFound
    from producers.recall import SESSION_SEARCH_TOOL, Recall
    from producers.results import Compaction, CompressionStuck, Status
    from producers.session import Session
    from producers.turn import Receipt, Usage, UsageError
    from producers.undoing import RewindError
    from storage.conversations.messages import Amount
    from storage.conversations.rows import Origin
    from storage.conversations.undo import Rewound, Undone
    from storage.errors import (
        AfterturnError,
        DatabaseUnavailable,
        EventConflict,
        InputError,
        SchemaOutdated,
        SessionClash,
        SessionNotFound,
        StorageError,
    )
    from storage.search import SearchMarkError
    from storage.signals import Signal, SignalKind
    from workers.conversation.messages import MessageError
    from workers.policy.guards import Suppression
    from workers.provider_errors.errors import ApiErrorKind
    from workers.prune.notes import HandleError
    from workers.rendering import Dialect
    from workers.settings import Settings, SettingsError, load_settings

_NAMES = {
    "producers.arguments": ("IdentifierError", "RequestError", "WindowError"),
    "producers.gateway": ("Gateway",),
    "producers.notify": ("Notifier",),
    "producers.reading": ("Context", "Output", "OutputNotFound"),
    "producers.recall": ("SESSION_SEARCH_TOOL", "Recall"),
    "producers.results": ("Compaction", "CompressionStuck", "Status"),
    "producers.session": ("Session",),
    "producers.turn": ("Receipt", "Usage", "UsageError"),
    "producers.undoing": ("RewindError",),
    "storage.errors": (
        "AfterturnError",
        "DatabaseUnavailable",
        "EventConflict",
        "InputError",
        "SchemaOutdated",
        "SessionClash",
        "SessionNotFound",
        "StorageError",
    ),
    "storage.conversations.messages": ("Amount",),
    "storage.conversations.rows": ("Origin",),
    "storage.search": ("SearchMarkError",),
    "storage.signals": ("Signal", "SignalKind"),
    "storage.conversations.undo": ("Rewound", "Undone"),
    "workers.provider_errors.errors": ("ApiErrorKind",),
    "workers.policy.guards": ("Suppression",),
    "workers.conversation.messages": ("MessageError",),
    "workers.prune.notes": ("HandleError",),
    "workers.rendering": ("Dialect",),
    "workers.settings": ("Settings", "SettingsError", "load_settings"),
}
"""The public names by their module."""

_HOMES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = [
    "SESSION_SEARCH_TOOL",
    "AfterturnError",
    "Amount",
    "ApiErrorKind",
    "Compaction",
    "CompressionStuck",
    "Context",
    "DatabaseUnavailable",
    "Dialect",
    "EventConflict",
    "Gateway",
    "HandleError",
    "IdentifierError",
    "InputError",
    "MessageError",
    "Notifier",
    "Origin",
    "Output",
    "OutputNotFound",
    "Recall",
    "Receipt",
    "RequestError",
    "RewindError",
    "Rewound",
    "SchemaOutdated",
    "SearchMarkError",
    "Session",
    "SessionClash",
    "SessionNotFound",
    "Settings",
    "SettingsError",
    "Signal",
    "SignalKind",
    "Status",
    "StorageError",
    "Suppression",
    "Undone",
    "Usage",
    "UsageError",
    "WindowError",
    "load_settings",
]

if not TYPE_CHECKING:  # Otherwise a type checker would accept every name.

    def __getattr__(name: str) -> object:
        """Load a public name and cache it."""
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value: object = getattr(import_module(_HOMES[name]), name)
        globals()[name] = value
        return value
