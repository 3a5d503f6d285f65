"""Acts that are put off: what lasts a while ends by one, and what ended begins anew by one."""

from __future__ import annotations

import time
from collections.abc import Callable

Deed = Callable[[], None]


class Later:
    """Deeds and when to do them; nothing happens but in `do_due` and `do_all`."""

    def __init__(self) -> None:
        self._waiting: list[tuple[float, Deed]] = []

    def after(self, seconds: float, deed: Deed) -> None:
        """Do something so long from now."""
        self._waiting.append((time.monotonic() + seconds, deed))

    def do_due(self) -> None:
        """Do what is due now."""
        now = time.monotonic()
        due = [deed for at, deed in self._waiting if at <= now]
        self._waiting = [one for one in self._waiting if one[0] > now]
        for deed in due:
            deed()

    def do_all(self) -> None:
        """Do everything at once, and nothing of what that puts off again."""
        for _, deed in sorted(self._waiting, key=lambda one: one[0]):
            deed()
        self._waiting.clear()
