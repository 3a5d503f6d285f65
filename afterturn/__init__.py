"""Durable workers for the memory of long-running agents. `python -m afterturn --help`.

`Gateway` and `load_settings` are loaded when they are first used, so importing this is cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from producers.gateway import Gateway
    from workers.settings_file import load_settings

__all__ = ["Gateway", "load_settings"]

_HOMES = {"Gateway": "producers.gateway", "load_settings": "workers.settings_file"}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
