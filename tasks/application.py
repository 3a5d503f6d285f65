"""How the Celery application is made, and what its tasks work with."""

from __future__ import annotations

import os
from dataclasses import replace
from threading import Lock

from celery import Celery

from storage import migrate
from storage.engine import Database
from storage.turnstile import Turnstile, width_for
from tasks import batch, micro, prune, turns, upkeep
from tasks.conclusion import WorkshopSource
from tasks.settings import celery_settings
from tasks.stopping import StopFlag
from workers.runtime.context import Workshop
from workers.settings import SettingsSource
from workers.summariser.chain import FollowingSummariser
from workers.summariser.gate import SharedGate


def make_app(broker_url: str | None, workshop: WorkshopSource) -> Celery:
    """Make an application whose tasks work with `workshop()`; None is the transport within one
    process."""
    app = Celery("afterturn", set_as_current=False)
    app.conf.update(celery_settings(broker_url))
    turns.define(app, workshop)
    micro.define(app, workshop)
    batch.define(app, workshop)
    prune.define(app, workshop)
    upkeep.define(app, workshop)
    return app


class ProcessWorkshop:
    """Gives the process's workshop, made at its first use and anew after a fork (F186)."""

    def __init__(self, settings: SettingsSource, stopping: StopFlag | None = None) -> None:
        self._settings = settings
        self._stopping = stopping or StopFlag()
        self._lock = Lock()
        self._made: tuple[int, Workshop] | None = None

    def __call__(self) -> Workshop:
        with self._lock:
            if self._made is None or self._made[0] != os.getpid():
                self._made = (os.getpid(), self._make())
            return self._made[1]

    def close(self) -> None:
        """Close what this process has opened."""
        with self._lock:
            if self._made is not None and self._made[0] == os.getpid():
                self._made[1].summariser.close()
                self._made[1].database.close()
            self._made = None

    def _make(self) -> Workshop:
        settings = self._settings.current()
        # A job holds no connection while it waits for a model; its lease's keeper needs one.
        pool_size = settings.worker.concurrency + 2
        database = _in_turns(migrate.open_ready(settings.database_url, pool_size=pool_size))
        return Workshop(
            database=database,
            settings=self._settings,
            summariser=FollowingSummariser(self._settings, os.environ, SharedGate(database)),
            stopping=self._stopping,
            out_of_time=lambda: self._stopping.lasts(settings.worker.stop_seconds),
        )


def _in_turns(database: Database) -> Database:
    """The same database, which threads use one after the other unless it is far away."""
    try:
        width = width_for(database.way_seconds())
    except BaseException:
        database.close()
        raise
    return replace(database, turnstile=Turnstile(width))
