"""Waiting for what other threads or processes bring about, and bounds on how long it may take."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

LOOK_SECONDS = 0.02


def wait_until(true: Callable[[], bool], what: str, seconds: float = 180.0) -> None:
    """Return once `true()` holds; fails after `seconds` and says what was waited for."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(LOOK_SECONDS)


def bound(seconds: float) -> float:
    """Return a bound for what takes well below `seconds` on a quiet machine.

    It grows with what else the machine does now, so that it is strict where it can be.
    """
    busy = os.getloadavg()[0] / (os.cpu_count() or 1)
    return seconds * max(1.0, 2 * busy)
