"""A limit on how many threads of one process use the database at the same time.

A transaction keeps a processor busy, in this process or in the database, and threads of one
process cannot compute at the same time. Many that try only slow each other down: eight threads
with short jobs do a quarter less than they do one after the other. Where the database is far away
a thread mostly waits, and others use that time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition, Lock, get_ident

TIMEOUT_SECONDS = 0.25
"""The longest wait of a thread for its turn. The one in front may itself wait, for a row that
another process has locked."""

STATEMENT_SECONDS = 0.0005
"""Processor time of a statement on either side, roughly."""


def width_for(away_seconds: float) -> int:
    """Return how many threads may pass at once for this round-trip time to the database: as many as
    it takes for one of them to compute while the others wait."""
    return 1 + int(away_seconds / STATEMENT_SECONDS)


class ConcurrencyLimit:
    """A limit of `width` threads at a time.

    A thread that has waited for `timeout` seconds passes too, in the place of the one that has been
    inside longest, which no longer counts: a stuck thread delays the others once.
    """

    def __init__(self, width: int = 1, timeout: float = TIMEOUT_SECONDS) -> None:
        self._width = width
        self._timeout = timeout
        self._moved = Condition(Lock())
        self._inside: dict[int, None] = {}

    @contextmanager
    def passed(self) -> Iterator[None]:
        """Yield a turn of this thread, which may begin another one within it."""
        me = get_ident()
        with self._moved:
            is_new = me not in self._inside
            if is_new:
                if not self._moved.wait_for(self._has_room, self._timeout):
                    del self._inside[next(iter(self._inside))]
                self._inside[me] = None
        try:
            yield
        finally:
            if is_new:
                with self._moved:
                    self._inside.pop(me, None)
                    self._moved.notify()

    def _has_room(self) -> bool:
        return len(self._inside) < self._width
