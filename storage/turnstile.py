"""Threads of one process that use the database one after the other.

A transaction of ours keeps a processor busy, in this process or in the database, and threads of
one process cannot compute at the same time. Many that try only hinder each other: eight threads
with short jobs do a quarter less than they do in turns.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock

PATIENCE_SECONDS = 0.25
"""How long a thread waits for its turn at most. The one in front may itself wait: for a row that
somebody else holds, or for a database that is far away."""


class Turnstile:
    """Lets one thread pass at a time; who has waited for `patience` seconds passes too."""

    def __init__(self, patience: float = PATIENCE_SECONDS) -> None:
        self._lock = RLock()
        self._patience = patience

    @contextmanager
    def passed(self) -> Iterator[None]:
        """A turn of this thread, which may begin another one within it."""
        holds = self._lock.acquire(timeout=self._patience)
        try:
            yield
        finally:
            if holds:
                self._lock.release()
