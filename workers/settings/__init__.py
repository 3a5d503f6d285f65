"""The settings of a service: one frozen value, checked when it is loaded.

Names are loaded when they are first used, since the endpoints of summarisers import the base of
these blocks, and one of the blocks is theirs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workers.settings.base import Problem, SettingsError
    from workers.settings.compression import CompressionSettings
    from workers.settings.file import SettingsSource, load_settings, settings_path
    from workers.settings.model import (
        AuxiliarySettings,
        RetentionSettings,
        ScheduleSettings,
        Settings,
        WorkerSettings,
    )
    from workers.settings.prices import ModelPrice, PriceSettings
    from workers.summariser.endpoints import (
        Endpoint,
        EndpointError,
        FallbackSettings,
        SummariserSettings,
        resolve_chain,
        resolve_endpoint,
    )

_NAMES = {
    "workers.summariser.endpoints": (
        "Endpoint",
        "EndpointError",
        "FallbackSettings",
        "SummariserSettings",
        "resolve_chain",
        "resolve_endpoint",
    ),
    "workers.settings.base": ("Problem", "SettingsError"),
    "workers.settings.compression": ("CompressionSettings",),
    "workers.settings.file": ("SettingsSource", "load_settings", "settings_path"),
    "workers.settings.model": (
        "AuxiliarySettings",
        "RetentionSettings",
        "ScheduleSettings",
        "Settings",
        "WorkerSettings",
    ),
    "workers.settings.prices": ("ModelPrice", "PriceSettings"),
}

_HOMES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = [
    "AuxiliarySettings",
    "CompressionSettings",
    "Endpoint",
    "EndpointError",
    "FallbackSettings",
    "ModelPrice",
    "PriceSettings",
    "Problem",
    "RetentionSettings",
    "ScheduleSettings",
    "Settings",
    "SettingsError",
    "SettingsSource",
    "SummariserSettings",
    "WorkerSettings",
    "load_settings",
    "resolve_chain",
    "resolve_endpoint",
    "settings_path",
]

if not TYPE_CHECKING:  # Otherwise a type checker would accept every name.

    def __getattr__(name: str) -> object:
        """Load a name and cache it."""
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(_HOMES[name]), name)
        globals()[name] = value
        return value
