"""Durable workers for the memory of long-running agents. `python -m afterturn --help`.

Everything that a gateway uses can be imported from here. Names are loaded when they are first
used, so that the import is cheap and the command line starts fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from producers import (
        SESSION_SEARCH_TOOL,
        AfterturnError,
        Amount,
        ApiErrorKind,
        Compaction,
        CompressionStuck,
        Context,
        DatabaseUnavailable,
        Dialect,
        EventConflict,
        Gateway,
        HandleError,
        IdentifierError,
        InputError,
        MessageError,
        Notifier,
        Origin,
        Output,
        OutputNotFound,
        Recall,
        Receipt,
        RequestError,
        RewindError,
        Rewound,
        SchemaOutdated,
        SearchMarkError,
        Session,
        SessionClash,
        SessionNotFound,
        Settings,
        SettingsError,
        Signal,
        SignalKind,
        Status,
        StorageError,
        Suppression,
        Undone,
        Usage,
        UsageError,
        WindowError,
        load_settings,
    )

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

if not TYPE_CHECKING:  # Else every name would be one that a type checker takes for good.

    def __getattr__(name: str) -> object:
        """Load a public name and keep it."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        import producers  # noqa: PLC0415 - nothing is loaded before a name is used

        value: object = getattr(producers, name)
        globals()[name] = value
        return value
