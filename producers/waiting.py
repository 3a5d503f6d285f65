"""Wait for what others bring about, bounded, without holding anything meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Seen = TypeVar("Seen")

FIRST_PAUSE_SECONDS = 0.02
LONGEST_PAUSE_SECONDS = 0.25


class Patience:
    """How long a caller is willing to wait, over however many passes.

    `clock` gives seconds that never go back, `sleep` waits for so many of them.
    """

    def __init__(
        self,
        seconds: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._until = clock() + seconds
        self.granted = seconds > 0

    @property
    def left(self) -> float:
        """Seconds that are left, 0 when there are none."""
        return max(0.0, self._until - self._clock())

    def pause(self, seconds: float) -> bool:
        """Sleep so long, or for what is left; False when nothing was left."""
        left = self.left
        if left <= 0:
            return False
        self._sleep(min(seconds, left))
        return True


def wait_for(look: Callable[[], Seen], over: Callable[[Seen], bool], patience: Patience) -> Seen:
    """Look, between ever longer pauses, until it is over or the patience is; gives the last look.

    Each look is to be short and to hold nothing when it returns.
    """
    pause = FIRST_PAUSE_SECONDS
    while True:
        seen = look()
        if over(seen) or not patience.pause(pause):
            return seen
        pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
