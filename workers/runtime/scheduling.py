"""What a process remembers about the jobs that it has worked."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from threading import Lock

from sqlalchemy import Connection

from storage import jobs
from storage.jobs import Choice

REMEMBERED_SECONDS = 60.0
"""How long a finished job is remembered: late notifications come within seconds. The limit matters
after a restore, when a database assigns the same job numbers again to running workers."""

REMEMBERED = 4096


class RoundRobin:
    """Fair scheduling over the owners of due jobs. Thread-safe.

    It remembers the owner that this process served last in each queue and serves owners in the
    order of their names, so that one owner's many jobs do not keep the others waiting.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._last: dict[str, str] = {}

    def served(self, queue: str, owner: str) -> None:
        """Remember that the jobs of a queue were worked up to those of `owner`."""
        with self._lock:
            self._last[queue] = owner

    def choose(self, connection: Connection, notified: Choice) -> Choice:
        """Choose the job to work on a notification for `notified`: one of the next owner.

        A notification permits a worker to work one job of its queue: the next owner's job of
        highest priority, and of several such the oldest. If the notified job belongs to the next
        owner and none of its jobs has a higher priority, the notified job itself is chosen, so that
        workers with notifications for many jobs of one owner do not all claim the same one.
        """
        if notified.owner is None:
            return notified  # Enqueued by an older version without fair scheduling.
        queue = notified.job.queue
        with self._lock:
            last = self._last.get(queue)
        first = jobs.next_in_rotation(connection, queue, after=last)
        if first is None or (first.owner == notified.owner and first.priority <= notified.priority):
            first = notified
        with self._lock:
            self._last[queue] = first.owner or notified.owner
        return first


class Finished:
    """Numbers of recently finished jobs, so that late notifications for them cost nothing.
    Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: dict[int, float] = {}
        self._lock = Lock()

    def note(self, job_ids: Iterable[int]) -> None:
        """Remember jobs whose end was committed."""
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
