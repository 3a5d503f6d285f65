"""How long to wait before asking again (ENGINE.md §10)."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Exponential backoff with full jitter: seconds of the first and of the longest wait."""

    base_seconds: float = 2.0
    longest_seconds: float = 600.0

    def delay_ms(self, failures: int, retry_after: float | None, rng: Random) -> int:
        """Milliseconds to wait after the `failures`-th failure in a row (1 is the first).

        What the endpoint asked for (`retry_after`, seconds) is honoured up to the longest wait.
        """
        ceiling = min(self.longest_seconds, self.base_seconds * 2 ** min(failures - 1, 30))
        asked = min(retry_after or 0.0, self.longest_seconds)
        return int(1000 * max(asked, rng.uniform(0, ceiling)))
