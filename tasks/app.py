"""The Celery application of a deployment: `celery -A tasks.app flower`, `… inspect ping`.

Made from the configuration file and the environment, once, when this module is imported.
"""

from __future__ import annotations

from tasks.application import ProcessWorkshop, make_app
from workers.settings_file import SettingsSource

_settings = SettingsSource.following()

app = make_app(_settings.current().broker_url, ProcessWorkshop(_settings))
