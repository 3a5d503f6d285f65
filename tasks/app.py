"""The Celery application of a deployment: `celery -A tasks.app flower`, `… inspect ping`.

Made from the configuration file and the environment, once, when this module is imported.
"""

from __future__ import annotations

from tasks.application import ProcessWorkshop, make_app
from tasks.settings import broker_of
from workers.settings_file import SettingsSource

_settings = SettingsSource.following()

app = make_app(broker_of(_settings.current()), ProcessWorkshop(_settings))
