"""What beat publishes, and when."""

from __future__ import annotations

from typing import Any

from schedules.entries import TICK_SECONDS, entries
from tasks.names import UPKEEP
from workers.settings import ScheduleSettings


def beat_schedule(settings: ScheduleSettings) -> dict[str, dict[str, Any]]:
    """Celery's `beat_schedule`. Any number of beats may run: each tick is taken once."""
    return {
        entry.name: {
            "task": entry.task,
            "schedule": entry.asked_every_seconds,
            "kwargs": entry.arguments,
            # Ticks must not pile up without end while no worker runs.
            "options": {"queue": UPKEEP, "expires": TICK_SECONDS},
        }
        for entry in entries(settings)
    }
