"""How large the measured sessions are, and how often everything is measured."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scale:
    """How much of everything.

    `long`, `short` and `batch` are sizes of sessions in messages. `context_window` is in tokens
    and decides how long the tail is. What is compared is measured `rounds` times after `warm_up`
    times, database growth over `growth_passes` passes, and a rate `repeats` times. Two workers
    share `crowd` sessions, or `nothings` tasks that do nothing. `outage` turns are finished
    without a broker. Of `sessions` and of `few_sessions` sessions `idle` ones are idle.
    `archive` and `small_archive` are messages that are searched, and of the known items in them
    every `every_known_item`-th is looked for, in `talks` sessions of each kind.
    `old_sessions` are re-compacted beside live turns.
    """

    long: int
    short: int
    batch: int
    context_window: int
    rounds: int
    warm_up: int
    growth_passes: int
    repeats: int
    crowd: int
    nothings: int
    outage: int
    sessions: int
    few_sessions: int
    idle: int
    archive: int
    small_archive: int
    every_known_item: int
    talks: int
    old_sessions: int


FULL = Scale(
    long=20_000,
    short=200,
    batch=2_000,
    context_window=128_000,
    rounds=40,
    warm_up=12,
    growth_passes=50,
    repeats=5,
    crowd=100,
    nothings=2_000,
    outage=1_000,
    sessions=200_000,
    few_sessions=10_000,
    idle=1_000,
    archive=1_000_000,
    small_archive=10_000,
    every_known_item=1,
    talks=1_000,
    old_sessions=2_000,
)
"""The sizes that the bars are set for."""

TINY = Scale(
    long=120,
    short=60,
    batch=120,
    context_window=8_000,
    rounds=1,
    warm_up=0,
    growth_passes=2,
    repeats=1,
    crowd=3,
    nothings=10,
    outage=5,
    sessions=60,
    few_sessions=20,
    idle=10,
    archive=300,
    small_archive=100,
    every_known_item=50,
    talks=20,
    old_sessions=4,
)
"""Just enough for everything to happen once; its figures mean nothing."""
