"""When a worker has been told to stop, so that jobs end between two passes."""

from __future__ import annotations

from threading import Event

from celery import signals


class StopFlag:
    """Turns true when Celery begins a shutdown of this process."""

    def __init__(self) -> None:
        self._stopping = Event()
        # Kept by this object: Celery holds receivers weakly.
        signals.worker_shutting_down.connect(self._on_shutdown)

    def __call__(self) -> bool:
        return self._stopping.is_set()

    def set(self) -> None:
        """Stop without Celery, as the embedded worker does."""
        self._stopping.set()

    def _on_shutdown(self, **_facts: object) -> None:
        self._stopping.set()
