"""The application of a worker whose every pass kills its process.

    celery -A tests.support.programs.poisoned_worker worker

DATABASE_URL, BROKER_URL and AFTERTURN_CONFIG say what it works with.
"""

from __future__ import annotations

import os
import signal
from dataclasses import replace

from tasks.application import ProcessContext, make_app
from tasks.settings import broker_of
from workers.runtime.context import WorkerContext
from workers.settings import SettingsSource


class PoisonedContext(ProcessContext):
    """Lets a process die as soon as a pass is planned."""

    def _make(self) -> WorkerContext:
        return replace(super()._make(), failpoint=_die)


def _die(point: str) -> None:
    if point == "planned":
        os.kill(os.getpid(), signal.SIGKILL)


_settings = SettingsSource.following()

app = make_app(broker_of(_settings.current()), PoisonedContext(_settings))
