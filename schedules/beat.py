"""What beat publishes, and when."""

from __future__ import annotations

from typing import Any

from tasks.names import RECONCILE, UPKEEP
from workers.settings import ScheduleSettings

TICK_SECONDS = 3600.0
"""After this time a tick that nobody took is dropped. Beat and worker compare their own clocks
there, so it has to be far longer than any two hosts' clocks differ."""


def beat_schedule(settings: ScheduleSettings) -> dict[str, dict[str, Any]]:
    """Celery's `beat_schedule`. Two beats do no harm: a job is rung once however many ask."""
    return {
        "reconcile": {
            "task": RECONCILE,
            "schedule": settings.reconcile_seconds,
            # Ticks must not pile up without end while no worker runs.
            "options": {"queue": UPKEEP, "expires": TICK_SECONDS},
        }
    }
