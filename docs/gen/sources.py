"""Where the generated pages come from. Every import from the product stands here."""

from __future__ import annotations

import producers as public
from afterturn.cli import app as command_line
from afterturn.exits import Exit
from afterturn.metrics.catalogue import METRICS, Metric, Source
from storage.signals import SignalKind
from workers.runtime.commit import ALWAYS_LOUD as LOUD_SIGNALS
from workers.settings.describe import SettingRow, describe_settings
from workers.telemetry.log_lines import LOG_LINES

PUBLIC_HOME = "producers"
"""The module that a page names for what `public` exports."""

__all__ = [
    "LOG_LINES",
    "LOUD_SIGNALS",
    "METRICS",
    "PUBLIC_HOME",
    "Exit",
    "Metric",
    "SettingRow",
    "SignalKind",
    "Source",
    "command_line",
    "describe_settings",
    "public",
]
