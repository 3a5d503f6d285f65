"""Threads of one process that use the database one after the other.

A transaction of ours keeps a processor busy, in this process or in the database, and threads of
one process cannot compute at the same time. Many that try only hinder each other: eight threads
with short jobs do a quarter less than they do in turns. Where the database is far away a thread
mostly waits, and others use that time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition, Lock, get_ident

PATIENCE_SECONDS = 0.25
"""How long a thread waits for its turn at most. The one in front may itself wait, for a row that
somebody else holds."""

STATEMENT_SECONDS = 0.0005
"""What a statement takes of a processor, on either side, roughly."""


def width_for(away_seconds: float) -> int:
    """Return how many threads may pass at once where the way to the database and back takes so
    long: as many as it takes for one of them to compute while the others wait."""
    return 1 + int(away_seconds / STATEMENT_SECONDS)


class ConcurrencyLimit:
    """Lets `width` threads pass at a time.

    One that has waited for `patience` seconds passes too, in the place of the one that is there
    longest, which then counts no more: one that is stuck holds the others up once.
    """

    def __init__(self, width: int = 1, patience: float = PATIENCE_SECONDS) -> None:
        self._width = width
        self._patience = patience
        self._moved = Condition(Lock())
        self._inside: dict[int, None] = {}

    @contextmanager
    def passed(self) -> Iterator[None]:
        """Yield a turn of this thread, which may begin another one within it."""
        me = get_ident()
        with self._moved:
            is_new = me not in self._inside
            if is_new:
                if not self._moved.wait_for(self._has_room, self._patience):
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
