"""What this process has seen to its end, so that late rings for it cost nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from threading import Lock

REMEMBERED_SECONDS = 60.0
"""Late rings come within seconds. A database that is put back to an earlier state gives numbers
anew, and its workers need not be started anew for that."""

REMEMBERED = 4096


class Finished:
    """Numbers of jobs that have just been closed as done, which is for good. Safe to use from many
    threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: dict[int, float] = {}
        self._lock = Lock()

    def note(self, job_ids: Iterable[int]) -> None:
        """Remember jobs whose end is committed."""
        until = self._clock() + REMEMBERED_SECONDS
        with self._lock:
            for job_id in job_ids:
                self._until.pop(job_id, None)
                self._until[job_id] = until
            while len(self._until) > REMEMBERED:
                del self._until[next(iter(self._until))]

    def __contains__(self, job_id: int) -> bool:
        until = self._until.get(job_id)
        return until is not None and self._clock() < until
