"""A host whose clock is wrong, for one process.

Imported and called before anything else is, since most modules take `datetime` by name. The clock
of the database is not touched: it is another host's.
"""

from __future__ import annotations

import datetime
import time
from unittest.mock import patch


def set_clock_ahead(seconds: float) -> None:
    """Let every clock of this process of the time of day go `seconds` ahead of it."""
    ahead = datetime.timedelta(seconds=seconds)
    real, true_time, true_ns = datetime.datetime, time.time, time.time_ns

    class OfInstances(type):
        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, real)

    class Skewed(real, metaclass=OfInstances):  # type: ignore[misc,valid-type]
        """`datetime` on this host; what was made by the real one counts as one, too."""

        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:
            return real.now(tz) + ahead

        @classmethod
        def utcnow(cls) -> datetime.datetime:
            return real.now(datetime.UTC).replace(tzinfo=None) + ahead

        @classmethod
        def today(cls) -> datetime.datetime:
            return cls.now()

    patch.object(datetime, "datetime", Skewed).start()
    patch.object(time, "time", lambda: true_time() + seconds).start()
    patch.object(time, "time_ns", lambda: true_ns() + int(seconds * 1e9)).start()
