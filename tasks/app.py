"""The Celery application of a deployment: `celery -A tasks.app worker`, `… flower`,
`… inspect ping`.

Made from the configuration file and the environment, once, when this module is imported.
"""

from __future__ import annotations

from tasks.application import ProcessWorkshop, make_app
from tasks.settings import broker_of
from tasks.starting import StartLook
from workers.settings import SettingsSource

_settings = SettingsSource.following()
_workshop = ProcessWorkshop(_settings)

app = make_app(broker_of(_settings.current()), _workshop)
start_look = StartLook(app, _workshop)
