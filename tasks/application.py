"""The Celery application with its table of tasks, and the context in which they run."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from threading import Lock

from celery import Celery

from storage import migrate
from storage.concurrency import ConcurrencyLimit, width_for
from storage.engine import Database
from storage.errors import StorageError
from tasks.conclusion import ContextSource, work_and_conclude
from tasks.lifecycle import StopFlag
from tasks.maintenance import MAINTENANCE_TASKS, tick
from tasks.names import TASK_OF_KIND
from tasks.settings import celery_settings
from workers.runtime.context import WorkerContext
from workers.settings import SettingsSource
from workers.summariser.chain import FollowingSummariser
from workers.summariser.gate import SharedGate


def make_app(broker_url: str | None, context: ContextSource) -> Celery:
    """Make an application whose tasks run with `context()`.

    A `broker_url` of None means the transport within one process.
    """
    app = Celery("afterturn", set_as_current=False)
    app.conf.update(celery_settings(broker_url))
    for name in TASK_OF_KIND.values():
        _declare(app, name, _job_task(app, context))
    for name in MAINTENANCE_TASKS:
        _declare(app, name, _maintenance_task(app, context, name))
    return app


def _declare(app: Celery, name: str, run: Callable[..., str]) -> None:
    # A shared task would replace that of every later application too.
    app.task(name=name, shared=False, throws=(StorageError,))(run)


def _job_task(app: Celery, context: ContextSource) -> Callable[..., str]:
    def run(job_id: int, **_facts: object) -> str:
        return work_and_conclude(app, context(), job_id)

    return run


def _maintenance_task(app: Celery, context: ContextSource, name: str) -> Callable[..., str]:
    def run(every_seconds: float | None = None, **_facts: object) -> str:
        return tick(app, context(), name, every_seconds)

    return run


class ProcessContext:
    """Source of the process's context.

    It is made at its first use, and again after a fork: a forked process must not share its
    parent's connections.
    """

    def __init__(self, settings: SettingsSource, stopping: StopFlag | None = None) -> None:
        self._settings = settings
        self._stopping = stopping or StopFlag()
        self._lock = Lock()
        self._made: tuple[int, WorkerContext] | None = None

    def __call__(self) -> WorkerContext:
        with self._lock:
            if self._made is None or self._made[0] != os.getpid():
                self._made = (os.getpid(), self._make())
            return self._made[1]

    def close(self) -> None:
        """Close the clients and connections that this process has opened."""
        with self._lock:
            if self._made is not None and self._made[0] == os.getpid():
                self._made[1].summariser.close()
                self._made[1].database.close()
            self._made = None

    def _make(self) -> WorkerContext:
        settings = self._settings.current()
        # A job holds no connection while it waits for a model; renewing its lease needs one.
        pool_size = settings.worker.concurrency + 2
        database = _limited(migrate.open_ready(settings.database_url, pool_size=pool_size))
        return WorkerContext(
            database=database,
            settings=self._settings,
            summariser=FollowingSummariser(self._settings, os.environ, SharedGate(database)),
            stopping=self._stopping,
            out_of_time=lambda: self._stopping.lasts(settings.worker.stop_seconds),
        )


def _limited(database: Database) -> Database:
    """Return the database with a limit on concurrent use that fits its round-trip time.

    Threads use a nearby database one after the other.
    """
    try:
        width = width_for(database.way_seconds())
    except BaseException:
        database.close()
        raise
    return replace(database, concurrency_limit=ConcurrencyLimit(width))
