"""A look at what is due when a worker starts: whatever happened while none ran is found at once."""

from __future__ import annotations

import logging
from threading import Thread

from billiard.process import current_process
from celery import Celery, signals
from celery.concurrency import prefork

from storage.errors import StorageError
from tasks.conclusion import WorkshopSource
from tasks.names import RECONCILE, SWEEP
from tasks.upkeep import tick

log = logging.getLogger(__name__)


class StartLook:
    """Looks once, in the background, when the worker of an application is ready.

    Where jobs are worked in processes of a pool, the first of them looks: the process that forks
    them must not open the database (F186).
    """

    def __init__(self, app: Celery, workshop: WorkshopSource) -> None:
        self._app = app
        self._workshop = workshop
        # Kept by this object: Celery holds receivers weakly.
        signals.worker_ready.connect(self._on_ready)
        signals.worker_process_init.connect(self._on_process_start)

    def close(self) -> None:
        """Look for nothing any more."""
        signals.worker_ready.disconnect(self._on_ready)
        signals.worker_process_init.disconnect(self._on_process_start)

    def _on_ready(self, sender: object, **_facts: object) -> None:
        forks = isinstance(getattr(sender, "pool", None), prefork.TaskPool)
        if getattr(sender, "app", None) is self._app and not forks:
            self._start()

    def _on_process_start(self, **_facts: object) -> None:
        if getattr(current_process(), "index", None) == 0:
            self._start()

    def _start(self) -> None:
        # Not in this thread: a worker takes no job before its receivers are done.
        Thread(target=self._look, name="afterturn-start-look", daemon=True).start()

    def _look(self) -> None:
        try:
            for name in (SWEEP, RECONCILE):
                tick(self._app, self._workshop(), name, None)
        except StorageError as error:
            log.warning("no look at what is due at the start: %s", error)
        except Exception:
            # The schedule looks again soon.
            log.exception("the look at what is due at the start failed")
