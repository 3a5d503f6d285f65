"""What a process remembers of the jobs that it has worked."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from threading import Lock

from sqlalchemy import Connection

from storage import jobs
from storage.jobs import Choice

REMEMBERED_SECONDS = 60.0
"""Late notifications come within seconds. A database that is restored to an earlier state gives
numbers anew, and its workers need not be restarted for that."""

REMEMBERED = 4096


class RoundRobin:
    """The owner that this process served last in each queue: owners are served in the order of
    their names, so that the many jobs of one do not keep the others waiting. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._last: dict[str, str] = {}

    def served(self, queue: str, owner: str) -> None:
        """Note that a queue's jobs were worked up to those of `owner`."""
        with self._lock:
            self._last[queue] = owner

    def choose(self, connection: Connection, notified: Choice) -> Choice:
        """Choose the job to work on a notification for `notified`: one of the next owner.

        A notification is a permission to work one job of its queue. Of an owner's jobs it is the
        one of highest priority, of several the one that waits longest. Where the next owner is
        that of the job notified for and nothing of his has a higher priority, it is that very job,
        so that workers with notifications for many jobs of one owner do not all reach for the same.
        """
        if notified.owner is None:
            return notified  # Made by an older version, whose workers know no fair scheduling.
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
    """Numbers of jobs that were closed as done a moment ago, so that late notifications for them
    cost nothing. Thread-safe."""

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
