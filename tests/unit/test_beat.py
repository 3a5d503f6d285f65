"""The schedule asks for upkeep, and clocks that differ do not silence it."""

from __future__ import annotations

from schedules.beat import beat_schedule
from tasks.names import QUEUES, RECONCILE
from workers.settings import ScheduleSettings


def test_the_reconciler_runs_as_often_as_configured_on_its_own_queue() -> None:
    entry = beat_schedule(ScheduleSettings(reconcile_seconds=7.0))["reconcile"]
    assert (entry["task"], entry["schedule"]) == (RECONCILE, 7.0)
    assert entry["options"]["queue"] in QUEUES


def test_a_worker_whose_clock_is_minutes_ahead_still_takes_a_tick() -> None:
    entry = beat_schedule(ScheduleSettings(reconcile_seconds=1.0))["reconcile"]
    assert entry["options"]["expires"] >= 1800
