"""Measuring two things by turns."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

Measured = Callable[[], tuple[float, ...]]
"""Prepares, does the thing once, and gives the milliseconds that each step of it took."""


@dataclass(frozen=True, slots=True)
class Compared:
    """Medians in milliseconds of two things that were measured by turns, `rounds` times each."""

    first: float
    second: float
    rounds: int

    @property
    def ratio(self) -> float:
        return self.first / self.second

    def __str__(self) -> str:
        return f"{self.first:.2f} / {self.second:.2f} ms, {self.rounds} rounds"


def milliseconds(act: Callable[[], object]) -> float:
    """Return how long `act` takes."""
    started = time.perf_counter()
    act()
    return 1000 * (time.perf_counter() - started)


def by_turns(first: Measured, second: Measured, *, rounds: int, warm_up: int) -> list[Compared]:
    """Measure A B A B … and give a comparison per step; the first `warm_up` rounds do not count.

    A dozen of them is enough for everything that changes with use: connections, compiled
    statements, and PostgreSQL's plans, which become generic at the eleventh execution.
    """
    for _ in range(warm_up):
        first()
        second()
    pairs = [(first(), second()) for _ in range(rounds)]
    steps = zip(*(zip(a, b, strict=True) for a, b in pairs), strict=True)
    return [
        Compared(median(a for a, _ in step), median(b for _, b in step), rounds) for step in steps
    ]
