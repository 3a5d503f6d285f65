"""Durable workers for the memory of long-running agents. `python -m afterturn --help`.

What a gateway imports is loaded when it is first used, so importing this is cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from producers import (
        SESSION_SEARCH_TOOL,
        CompressionStuck,
        Gateway,
        HandleError,
        OutputNotFound,
        RequestError,
        SearchMarkError,
        Session,
        SessionNotFound,
        SignalKind,
    )
    from workers.settings_file import load_settings

__all__ = [
    "SESSION_SEARCH_TOOL",
    "CompressionStuck",
    "Gateway",
    "HandleError",
    "OutputNotFound",
    "RequestError",
    "SearchMarkError",
    "Session",
    "SessionNotFound",
    "SignalKind",
    "load_settings",
]

_HOMES = {"load_settings": "workers.settings_file"}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES.get(name, "producers")), name)
