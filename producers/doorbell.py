"""Tell workers that a job is due, without ever keeping the gateway waiting."""

from __future__ import annotations

import logging
import time
from threading import Condition, Thread

from celery import Celery

from storage.jobs import DueJob
from tasks.publishing import notify
from tasks.settings import celery_settings

log = logging.getLogger(__name__)

MOST_WAITING = 10_000
"""Rings that may wait for a slow broker. Further ones are left to the reconciler."""


class Doorbell:
    """Rings from a thread of its own. A broker that is down or hangs costs callers nothing.

    A ring may be lost: the job's row is the work, and the reconciler rings for it later.
    """

    def __init__(self, broker_url: str) -> None:
        self._app = Celery("afterturn-gateway", set_as_current=False)
        self._app.conf.update(celery_settings(broker_url, notify_only=True))
        self._change = Condition()
        self._waiting: dict[int, DueJob] = {}
        self._busy = False
        self._closed = False
        self._thread: Thread | None = None

    def ring(self, job: DueJob) -> None:
        """Ask for a ring. Returns at once, never raises."""
        with self._change:
            if self._closed or len(self._waiting) >= MOST_WAITING:
                return
            self._waiting[job.id] = job
            if self._thread is None:
                self._thread = Thread(target=self._run, name="afterturn-doorbell", daemon=True)
                self._thread.start()
            self._change.notify_all()

    def flush(self, seconds: float) -> bool:
        """Wait at most `seconds` until every ring so far was tried; False if that was short."""
        until = time.monotonic() + seconds
        with self._change:
            while self._waiting or self._busy:
                left = until - time.monotonic()
                if left <= 0:
                    return False
                self._change.wait(left)
        return True

    def close(self, seconds: float = 1.0) -> None:
        """Try what is waiting for at most `seconds`, then end the thread."""
        self.flush(seconds)
        with self._change:
            self._closed = True
            self._waiting.clear()
            self._change.notify_all()
            thread, self._thread = self._thread, None
        if thread is not None:
            thread.join(seconds)
        self._app.close()

    def _run(self) -> None:
        unreachable = False
        while True:
            with self._change:
                self._busy = False
                self._change.notify_all()
                while not self._waiting:
                    if self._closed:
                        return
                    self._change.wait()
                due = list(self._waiting.values())
                self._waiting.clear()
                self._busy = True
            try:
                # One line when the broker goes away, not one per turn while it stays away.
                level = logging.DEBUG if unreachable else logging.WARNING
                unreachable = notify(self._app, due, level=level) < len(due)
            except Exception:
                # Whatever a broker's driver raises, the gateway goes on and the reconciler rings.
                log.exception("a ring failed")
