"""Task `upkeep.reconcile`: ring for due jobs that nobody works on."""

from __future__ import annotations

from celery import Celery

from storage.errors import StorageError
from tasks.conclusion import WorkshopSource
from tasks.names import RECONCILE
from tasks.ring import ring
from workers.reconcile import reconcile as find_due


def define(app: Celery, workshop: WorkshopSource) -> None:
    """Give `app` the task."""

    # A shared task would be given to every later application too, in place of its own.
    @app.task(name=RECONCILE, shared=False, throws=(StorageError,))
    def reconcile(**_facts: object) -> int:
        return ring(app, find_due(workshop()))
