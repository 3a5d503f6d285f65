"""Task `prune.shorten`: show old tool output in short forms."""

from __future__ import annotations

from celery import Celery

from storage.errors import StorageError
from tasks.conclusion import WorkshopSource, work_and_conclude
from tasks.names import SHORTEN


def define(app: Celery, workshop: WorkshopSource) -> None:
    """Give `app` the task."""

    # A shared task would be given to every later application too, in place of its own.
    @app.task(name=SHORTEN, shared=False, throws=(StorageError,))
    def shorten(job_id: int, **_facts: object) -> str:
        return work_and_conclude(app, workshop(), job_id)
