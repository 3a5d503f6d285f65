"""The Celery application that beat runs: `celery -A schedules.app beat`.

It only sends tasks by name, so it needs neither the database nor the code of the tasks.
"""

from __future__ import annotations

from celery import Celery

from schedules.schedule import beat_schedule
from tasks.settings import broker_of, celery_settings
from workers.settings import load_settings

_settings = load_settings()

app = Celery("afterturn-beat", set_as_current=False)
app.conf.update(celery_settings(broker_of(_settings)))
app.conf.beat_schedule = beat_schedule(_settings.schedule)
