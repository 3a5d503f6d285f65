"""The schedule sends maintenance, and clocks that differ do not stop it."""

from __future__ import annotations

import pytest

from schedules.schedule import beat_schedule, entries
from tasks.application import make_app
from tasks.names import QUEUES, RECONCILE
from workers.settings import ScheduleSettings

SETTINGS = ScheduleSettings(reconcile_seconds=7.0)


def test_the_reconciler_runs_as_often_as_configured_on_its_own_queue() -> None:
    entry = beat_schedule(SETTINGS)["reconcile"]
    assert entry["task"] == RECONCILE
    assert entry["kwargs"] == {"every_seconds": 7.0}
    assert entry["options"]["queue"] in QUEUES


def test_every_setting_of_the_schedule_is_that_of_an_entry() -> None:
    given = {f"{entry.name}_seconds": entry.seconds for entry in entries(SETTINGS)}
    assert given == SETTINGS.model_dump()


@pytest.mark.parametrize("name", beat_schedule(SETTINGS))
def test_a_tick_is_asked_for_twice_so_that_none_is_missed(name: str) -> None:
    entry = beat_schedule(SETTINGS)[name]
    assert entry["schedule"] == entry["kwargs"]["every_seconds"] / 2


@pytest.mark.parametrize("name", beat_schedule(SETTINGS))
def test_workers_know_the_tasks_of_the_schedule(name: str) -> None:
    app = make_app(None, lambda: pytest.fail("nothing is worked here"))
    assert beat_schedule(SETTINGS)[name]["task"] in app.tasks
    app.close()


@pytest.mark.parametrize("name", beat_schedule(SETTINGS))
def test_a_worker_whose_clock_is_hours_ahead_still_takes_a_tick(name: str) -> None:
    assert beat_schedule(SETTINGS)[name]["options"]["expires"] > 2 * 3600
