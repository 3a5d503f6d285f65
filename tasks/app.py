"""The Celery application of a deployment: `celery -A tasks.app worker`, `… flower`,
`… inspect ping`.

Built once, when this module is imported, from the configuration file and the environment.
"""

from __future__ import annotations

from tasks.application import ProcessContext, make_app
from tasks.lifecycle import StartScan
from tasks.settings import broker_of
from workers.settings import SettingsSource

_settings = SettingsSource.following()
_context = ProcessContext(_settings)

app = make_app(broker_of(_settings.current()), _context)
start_scan = StartScan(app, _context)
