"""What runs by the clock, and how often."""

from __future__ import annotations

from dataclasses import dataclass

from tasks.names import FORGET, INDEX, RECONCILE, SCAN_IDLE, SWEEP, TEND
from workers.settings import ScheduleSettings

TICK_SECONDS = 21_600.0
"""After this time a tick that nobody took is dropped. Who sends and who takes it compare their own
clocks there, so it has to be far longer than any two hosts' clocks differ."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A task that runs once in every `seconds`, whoever asks for it and however often.

    The `seconds` are those of the database's clock: the task takes each of them once
    (`storage.slots`). It is asked for twice as often, since a tick that is sent every `seconds`
    would now and then come twice in one of them and not at all in the next.
    """

    name: str
    task: str
    seconds: float

    @property
    def asked_every_seconds(self) -> float:
        return self.seconds / 2

    @property
    def arguments(self) -> dict[str, float]:
        """What the task is told."""
        return {"every_seconds": self.seconds}


def entries(settings: ScheduleSettings) -> tuple[Entry, ...]:
    """The whole schedule."""
    return (
        Entry("reconcile", RECONCILE, settings.reconcile_seconds),
        Entry("sweep", SWEEP, settings.sweep_seconds),
        Entry("idle", SCAN_IDLE, settings.idle_seconds),
        Entry("retention", FORGET, settings.retention_seconds),
        Entry("database", TEND, settings.database_seconds),
        Entry("search", INDEX, settings.search_seconds),
    )
