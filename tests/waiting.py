"""Wait for something that other threads or processes bring about."""

from __future__ import annotations

import time
from collections.abc import Callable

LOOK_SECONDS = 0.02


def wait_until(true: Callable[[], bool], what: str, seconds: float = 30.0) -> None:
    """Return once `true()` holds; fails after `seconds` and says what was waited for."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(LOOK_SECONDS)
