"""What beat publishes, and when."""

from __future__ import annotations

from typing import Any

from tasks.names import RECONCILE, UPKEEP
from workers.settings import ScheduleSettings


def beat_schedule(settings: ScheduleSettings) -> dict[str, dict[str, Any]]:
    """Celery's `beat_schedule`. Two beats do no harm: a job is rung once however many ask."""
    return {
        "reconcile": {
            "task": RECONCILE,
            "schedule": settings.reconcile_seconds,
            # A tick that nobody took in time is worthless: the next one does the same.
            "options": {"queue": UPKEEP, "expires": settings.reconcile_seconds},
        }
    }
