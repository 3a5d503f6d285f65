"""A summariser that stops waiting when the person at the terminal does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Event

from workers.summariser.contract import Reply, Summariser, SummaryRequest


@dataclass(frozen=True, slots=True)
class Interruptible:
    """Asks `inner`, and gives a question up once `interrupted` is set: a worker that ends waits
    for the answer that is paid for, a person does not."""

    inner: Summariser
    interrupted: Event

    @property
    def model(self) -> str:
        return self.inner.model

    @property
    def fingerprint(self) -> int:
        return self.inner.fingerprint

    def room(self, summary_tokens: int) -> int:
        """See `Summariser`."""
        return self.inner.room(summary_tokens)

    def summarise(self, request: SummaryRequest, stop: Callable[[], bool]) -> Reply:
        """See `Summariser`; raises `Stopped` when interrupted."""
        return self.inner.summarise(request, lambda: stop() or self.interrupted.is_set())

    def close(self) -> None:
        """Close `inner`."""
        self.inner.close()
