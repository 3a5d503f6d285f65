"""Watch a bulk run until it ends."""

from __future__ import annotations

import time
from collections.abc import Callable

from rich.console import Console

from afterturn.render.progress import show_progress
from afterturn.render.words import duration, number
from producers.notify import Notifier
from storage import bulk_runs, jobs
from storage.bulk_runs import Run, RunState, Tally
from storage.engine import Database
from storage.jobs import queue_states
from storage.models import BULK_QUEUE
from workers.scans.recompaction import refill, settle
from workers.settings import Settings

LOOK_SECONDS = 0.5
QUIET_SECONDS = 45.0
"""How long nothing may be finished before a remark says what could be wrong."""


def watch(
    database: Database,
    settings: Settings,
    run_id: int,
    console: Console,
    *,
    actor: str,
    wait: Callable[[float], object] = time.sleep,
) -> tuple[Run, Tally]:
    """Keep a run going and show its progress, until it is done or somebody stops it.

    Workers do the work. Raises `KeyboardInterrupt` after Ctrl-C, having changed nothing.
    """
    notifier = Notifier(settings.broker_url) if settings.broker_url else None
    pace, quiet = _Pace(), _Quiet()
    try:
        with show_progress(console) as progress:
            while True:
                refill(database, actor=actor)
                if notifier is not None:
                    _notify(database, settings, notifier)
                run, tally = read_run(database, run_id)
                total = tally.waiting + tally.asked + tally.settled
                text = f"sessions, {_progress_words(tally, pace.rate(tally.settled))}"
                progress.bar(f"run {run_id}:", tally.settled, total, text)
                if run.state is not RunState.RUNNING:
                    return run, tally
                if quiet.too_long(tally):
                    progress.remark(_why_quiet(database))
                wait(LOOK_SECONDS)
    finally:
        if notifier is not None:
            notifier.close()


def read_run(database: Database, run_id: int) -> tuple[Run, Tally]:
    """Read a run as it is now."""
    settle(database, run_id)
    with database.read() as connection:
        return bulk_runs.fetch(connection, run_id), bulk_runs.tally(connection, run_id)


def _notify(database: Database, settings: Settings, notifier: Notifier) -> None:
    with database.write() as connection:
        due = jobs.notify_bulk(connection, database, at_once=settings.worker.bulk_at_once)
    for job in due:
        notifier.notify(job)


def _why_quiet(database: Database) -> str:
    with database.read() as connection:
        if queue_states.is_paused(connection, BULK_QUEUE):
            return f"Queue {BULK_QUEUE} is paused: `afterturn queues resume {BULK_QUEUE}`."
    return (
        f"Nothing was finished for {duration(1000 * QUIET_SECONDS)}. Is a worker running that "
        f"takes queue {BULK_QUEUE}, and does the model answer? `afterturn doctor` checks."
    )


class _Pace:
    """Measures sessions a minute, over the last two minutes."""

    def __init__(self) -> None:
        self._seen: list[tuple[float, int]] = []

    def rate(self, settled: int) -> float | None:
        now = time.monotonic()
        self._seen.append((now, settled))
        self._seen = [one for one in self._seen if now - one[0] <= 120][-500:]
        since, before = self._seen[0]
        if now - since < 1 or settled == before:
            return None
        return (settled - before) * 60 / (now - since)


class _Quiet:
    """Notices once when nothing is finished for long."""

    def __init__(self) -> None:
        self._settled = -1
        self._since = time.monotonic()
        self._noticed = False

    def too_long(self, tally: Tally) -> bool:
        now = time.monotonic()
        if tally.settled != self._settled:
            self._settled, self._since, self._noticed = tally.settled, now, False
        if self._noticed or now - self._since < QUIET_SECONDS:
            return False
        self._noticed = True
        return True


def _progress_words(tally: Tally, rate: float | None) -> str:
    left = tally.waiting + tally.asked
    words = [f"{number(tally.tokens_saved)} tokens saved"]
    if rate:
        words.append(f"{rate:,.0f} a minute")
        if left:
            words.append(f"{duration(left / rate * 60_000)} left")
    return ", ".join(words)
