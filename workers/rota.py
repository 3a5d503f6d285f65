"""Owners are served in turn, so that one's many jobs do not keep the others waiting."""

from __future__ import annotations

from threading import Lock

from sqlalchemy import Connection

from storage import jobs
from storage.jobs import Choice


class Rota:
    """Whom this process served last in each queue. Safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._last: dict[str, str] = {}

    def served(self, queue: str, owner: str) -> None:
        """Note that a queue's jobs were worked up to those of `owner`."""
        with self._lock:
            self._last[queue] = owner

    def choose(self, connection: Connection, rung: Choice) -> Choice:
        """Whose job a ring is good for: that of the owner whose turn it is.

        A ring is a permission to work one job of its queue. The turn goes around in the order of
        names; what is taken of an owner is his strongest job, of several the one that waits
        longest. Where it is the turn of the rung job's owner and nothing of his is stronger, it is
        that job, so that workers who are rung for many jobs of one owner do not all reach for the
        same.
        """
        if rung.owner is None:
            return rung  # Made by an older version, whose workers know of no turns.
        queue = rung.job.queue
        with self._lock:
            last = self._last.get(queue)
        first = jobs.in_turn(connection, queue, after=last)
        if first is None or (first.owner == rung.owner and first.strength <= rung.strength):
            first = rung
        with self._lock:
            self._last[queue] = first.owner or rung.owner
        return first
