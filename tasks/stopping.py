"""When a worker has been told to stop, so that jobs end between two passes."""

from __future__ import annotations

import time
from mmap import mmap
from struct import Struct

from celery import signals

_TIME = Struct("d")


class StopFlag:
    """Turns true when Celery begins a shutdown of this process, for the processes of its pool too.

    Celery tells its main process alone. What that writes down here lies in memory which the
    processes of a pool, forked from it, share; its time is that of the host's monotonic clock,
    which is one for all of them.
    """

    def __init__(self) -> None:
        self._since = mmap(-1, _TIME.size)
        # Kept by this object: Celery holds receivers weakly.
        signals.worker_shutting_down.connect(self._on_shutdown)

    def __call__(self) -> bool:
        return self._read() > 0

    def lasts(self, seconds: float) -> bool:
        """Whether it turned true that long ago."""
        since = self._read()
        return since > 0 and time.monotonic() - since >= seconds

    def set(self) -> None:
        """Stop without Celery, as the embedded worker does."""
        if not self():
            _TIME.pack_into(self._since, 0, time.monotonic())

    def _read(self) -> float:
        (since,) = _TIME.unpack_from(self._since)
        return float(since)

    def _on_shutdown(self, **_facts: object) -> None:
        self.set()
