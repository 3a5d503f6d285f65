"""The schedule: its entries, their form for beat, and a clock for processes without beat."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from threading import Event, Thread
from typing import Any

from celery import Celery
from kombu.exceptions import OperationalError

from tasks.names import (
    DATABASE,
    INDEX,
    MAINTENANCE,
    RECONCILE,
    RECOVER_ORPHANS,
    RETENTION,
    SCAN_IDLE,
)
from workers.settings import ScheduleSettings

log = logging.getLogger(__name__)

TICK_SECONDS = 21_600.0
"""Seconds after which a tick that no worker took is dropped. Sender and receiver each use their own
clock for that, so it must be far longer than the difference of any two hosts' clocks."""

STOP_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Entry:
    """A task that runs once in every `seconds`, however many schedulers send it.

    The intervals are those of the database's clock, and the task runs once in each
    (`storage.scheduling`). It is sent twice as often, since a tick that is sent every `seconds`
    would sometimes arrive twice in one interval and not at all in the next.
    """

    name: str
    task: str
    seconds: float

    @property
    def sent_every_seconds(self) -> float:
        return self.seconds / 2

    @property
    def arguments(self) -> dict[str, float]:
        """The keyword arguments of the task."""
        return {"every_seconds": self.seconds}


def entries(settings: ScheduleSettings) -> tuple[Entry, ...]:
    """Return the whole schedule."""
    return (
        Entry("reconcile", RECONCILE, settings.reconcile_seconds),
        Entry("orphans", RECOVER_ORPHANS, settings.orphans_seconds),
        Entry("idle", SCAN_IDLE, settings.idle_seconds),
        Entry("retention", RETENTION, settings.retention_seconds),
        Entry("database", DATABASE, settings.database_seconds),
        Entry("search", INDEX, settings.search_seconds),
    )


def beat_schedule(settings: ScheduleSettings) -> dict[str, dict[str, Any]]:
    """Return Celery's `beat_schedule`. Any number of beats may run: each tick is taken once."""
    return {
        entry.name: {
            "task": entry.task,
            "schedule": entry.sent_every_seconds,
            "kwargs": entry.arguments,
            # Ticks must not pile up while no worker runs.
            "options": {"queue": MAINTENANCE, "expires": TICK_SECONDS},
        }
        for entry in entries(settings)
    }


class Clock:
    """A thread that sends every entry at its start and then regularly, where no beat runs.

    It may run beside beats and other clocks: each tick is taken once. A tick that the broker does
    not accept is not sent again; the next one follows.
    """

    def __init__(self, app: Celery, settings: ScheduleSettings) -> None:
        self._app = app
        self._due: dict[Entry, float] = dict.fromkeys(entries(settings), 0.0)
        self._ended = Event()
        self._thread = Thread(target=self._run, name="afterturn-clock", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread, without waiting for a broker that hangs. May be called before `start`."""
        self._ended.set()
        if self._thread.ident is not None:
            self._thread.join(STOP_SECONDS)

    def _run(self) -> None:
        pause = 0.0
        while not self._ended.wait(pause):
            now = time.monotonic()
            for entry, at in self._due.items():
                if at <= now:
                    self._due[entry] = now + entry.sent_every_seconds
                    self._send(entry)
            pause = max(0.0, min(self._due.values()) - time.monotonic())

    def _send(self, entry: Entry) -> None:
        try:
            self._app.send_task(
                entry.task,
                kwargs=entry.arguments,
                queue=MAINTENANCE,
                expires=TICK_SECONDS,
                ignore_result=True,
            )
        except (OperationalError, OSError) as error:
            log.debug("tick of %s not sent (%s)", entry.name, type(error).__name__)
        except Exception:
            # The schedule survives every error of a broker's driver.
            log.exception("tick of %s not sent", entry.name)
