"""Sends what the schedule asks for from within a process, where no beat runs."""

from __future__ import annotations

import logging
import time
from threading import Event, Thread

from celery import Celery
from kombu.exceptions import OperationalError

from schedules.entries import TICK_SECONDS, Entry, entries
from tasks.names import UPKEEP
from workers.settings import ScheduleSettings

log = logging.getLogger(__name__)

STOP_SECONDS = 1.0


class Clock:
    """Ticks in a thread of its own, for every entry at its start and from then on.

    It may run beside beats and other clocks: each tick is taken once. A broker that is away is
    asked again at the next tick.
    """

    def __init__(self, app: Celery, settings: ScheduleSettings) -> None:
        self._app = app
        self._due: dict[Entry, float] = dict.fromkeys(entries(settings), 0.0)
        self._ended = Event()
        self._thread = Thread(target=self._run, name="afterturn-clock", daemon=True)

    def start(self) -> None:
        """Begin to tick."""
        self._thread.start()

    def stop(self) -> None:
        """End; a broker that hangs just now is not waited for. May be called before `start`."""
        self._ended.set()
        if self._thread.ident is not None:
            self._thread.join(STOP_SECONDS)

    def _run(self) -> None:
        pause = 0.0
        while not self._ended.wait(pause):
            now = time.monotonic()
            for entry, at in self._due.items():
                if at <= now:
                    self._due[entry] = now + entry.asked_every_seconds
                    self._send(entry)
            pause = max(0.0, min(self._due.values()) - time.monotonic())

    def _send(self, entry: Entry) -> None:
        try:
            self._app.send_task(
                entry.task,
                kwargs=entry.arguments,
                queue=UPKEEP,
                expires=TICK_SECONDS,
                ignore_result=True,
            )
        except (OperationalError, OSError) as error:
            log.debug("tick of %s not sent (%s)", entry.name, type(error).__name__)
        except Exception:
            # The schedule outlives whatever a broker's driver raises.
            log.exception("tick of %s not sent", entry.name)
