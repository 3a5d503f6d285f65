"""Wait until workers have nothing in hand."""

from __future__ import annotations

import time
from collections.abc import Callable

from afterturn.compaction.progress import Progress
from afterturn.words import count
from storage import backlog, jobs
from storage.engine import Database

LOOK_SECONDS = 0.3
"""Pause between two looks. Longer than a claim takes that began before the pause was stored."""


def wait_until_idle(
    database: Database,
    progress: Progress,
    *,
    seconds: float | None,
    sleep: Callable[[float], object] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """Wait until no job runs, at most `seconds`, and give how many still run.

    A job whose lease has ended is put back here: with every worker gone nobody else might. None
    runs when two looks in a row have found none: a worker may just have been claiming one.
    """
    until = None if seconds is None else clock() + seconds
    told, idle_looks = -1, 0
    while True:
        running = _look(database)
        idle_looks = 0 if running else idle_looks + 1
        if idle_looks == 2:
            return 0
        if running != told and running:
            progress.step(f"{count(running, 'job')} still running")
        told = running
        if running and until is not None and clock() >= until:
            return running
        sleep(LOOK_SECONDS)


def _look(database: Database) -> int:
    with database.read() as connection:
        if not (running := backlog.running(connection)):
            return 0
    with database.write() as connection:
        return running - jobs.rescue_expired(connection, database)
