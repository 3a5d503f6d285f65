"""How long a call to the model may take."""

from __future__ import annotations

from dataclasses import dataclass

from workers.summariser.contract import ErrorClass

CONNECT_SECONDS = 10.0
"""A host that does not take a connection in this time is down, not slow."""

USAGE_SECONDS = 5.0
"""How long to wait for the token counts once the answer itself is complete."""


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Seconds until the first text, of silence after it, and for the whole (ENGINE.md §10)."""

    first_byte: float = 300.0
    idle: float = 120.0
    total: float = 600.0


class Patience:
    """When to give one call up, and why then. Times are seconds on one monotonic clock."""

    def __init__(self, deadlines: Deadlines, now: float) -> None:
        self._idle = deadlines.idle
        self._end = now + deadlines.total
        self._silent_until = now + deadlines.first_byte
        self._silence = ErrorClass.FIRST_BYTE_TIMEOUT

    def progress(self, now: float) -> None:
        """Text or reasoning arrived."""
        self._silent_until = now + self._idle
        self._silence = ErrorClass.IDLE_TIMEOUT

    def finish(self, now: float) -> None:
        """The answer is complete; only its token counts may follow."""
        self._silent_until = now + USAGE_SECONDS

    @property
    def until(self) -> float:
        return min(self._silent_until, self._end)

    @property
    def lapse(self) -> ErrorClass:
        """What it means that `until` has passed."""
        return self._silence if self._silent_until <= self._end else ErrorClass.TOTAL_TIMEOUT
