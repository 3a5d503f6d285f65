"""Watch a run until it ends: a bar with rate and time left on a terminal, lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn
from rich.progress import Progress as Bar
from rich.text import Text

from afterturn.words import duration, number
from producers.doorbell import Doorbell
from storage import bulk_runs, jobs, queue_states
from storage.bulk_runs import Run, RunState, Tally
from storage.engine import Database
from storage.models import BULK_QUEUE
from workers.scans.recompaction import refill, settle
from workers.settings import Settings

LOOK_SECONDS = 0.5
QUIET_SECONDS = 45.0
"""How long nothing may happen before a person is told what could be wrong."""

_LINE_SECONDS = 10.0


class Display(Protocol):
    """Shows how far a run is."""

    def show(self, tally: Tally, rate: float | None) -> None:
        """`rate` is in sessions a minute, None where it is not known yet."""

    def remark(self, text: str) -> None:
        """Something that stays on the screen."""


def watch(
    database: Database,
    settings: Settings,
    run_id: int,
    console: Console,
    *,
    actor: str,
    wait: Callable[[float], object] = time.sleep,
) -> tuple[Run, Tally]:
    """Go on with a run and show how far it is, until it is done or somebody stops it.

    Workers do the work. Raises `KeyboardInterrupt` after Ctrl-C, having changed nothing.
    """
    doorbell = Doorbell(settings.broker_url) if settings.broker_url else None
    pace, quiet = _Pace(), _Quiet()
    try:
        with _display(console, run_id) as display:
            while True:
                refill(database, actor=actor)
                if doorbell is not None:
                    _ring(database, settings, doorbell)
                run, tally = look_at(database, run_id)
                display.show(tally, pace.rate(tally.settled))
                if run.state is not RunState.RUNNING:
                    return run, tally
                if quiet.too_long(tally):
                    display.remark(_why_quiet(database))
                wait(LOOK_SECONDS)
    finally:
        if doorbell is not None:
            doorbell.close()


def look_at(database: Database, run_id: int) -> tuple[Run, Tally]:
    """A run as it is now."""
    settle(database, run_id)
    with database.read() as connection:
        return bulk_runs.fetch(connection, run_id), bulk_runs.tally(connection, run_id)


def _ring(database: Database, settings: Settings, doorbell: Doorbell) -> None:
    with database.write() as connection:
        due = jobs.ring_bulk(connection, database, at_once=settings.worker.bulk_at_once)
    for job in due:
        doorbell.ring(job)


def _why_quiet(database: Database) -> str:
    with database.read() as connection:
        if queue_states.is_paused(connection, BULK_QUEUE):
            return f"Queue {BULK_QUEUE} is paused: `afterturn queues resume {BULK_QUEUE}`."
    return (
        f"Nothing was finished for {duration(1000 * QUIET_SECONDS)}. Is a worker running that "
        f"takes queue {BULK_QUEUE}, and does the model answer? `afterturn doctor` looks."
    )


class _Pace:
    """Sessions a minute, of the last minutes."""

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
    """Notices once when nothing happens for long."""

    def __init__(self) -> None:
        self._settled = -1
        self._since = time.monotonic()
        self._told = False

    def too_long(self, tally: Tally) -> bool:
        now = time.monotonic()
        if tally.settled != self._settled:
            self._settled, self._since, self._told = tally.settled, now, False
        if self._told or now - self._since < QUIET_SECONDS:
            return False
        self._told = True
        return True


@contextmanager
def _display(console: Console, run_id: int) -> Iterator[Display]:
    if not console.is_interactive:
        yield _Lines(console, run_id)
        return
    parts = (
        SpinnerColumn(),
        TextColumn(f"run {run_id}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[told]}"),
    )
    with Bar(*parts, console=console) as bar:
        yield _Display(bar)


class _Display:
    def __init__(self, bar: Bar) -> None:
        self._bar = bar
        self._task = bar.add_task("", total=None, told="")

    def show(self, tally: Tally, rate: float | None) -> None:
        self._bar.update(
            self._task,
            total=tally.waiting + tally.asked + tally.settled,
            completed=tally.settled,
            told=_told(tally, rate),
        )

    def remark(self, text: str) -> None:
        self._bar.console.print(Text(text, style="yellow"))


class _Lines:
    def __init__(self, console: Console, run_id: int) -> None:
        self._console = console
        self._run_id = run_id
        self._last = -_LINE_SECONDS

    def show(self, tally: Tally, rate: float | None) -> None:
        now, left = time.monotonic(), tally.waiting + tally.asked
        if left and now - self._last < _LINE_SECONDS:
            return
        self._last = now
        of = f"{number(tally.settled)} of {number(tally.settled + left)}"
        self.remark(f"run {self._run_id}: {of} sessions, {_told(tally, rate)}")

    def remark(self, text: str) -> None:
        self._console.print(Text(text), soft_wrap=True)


def _told(tally: Tally, rate: float | None) -> str:
    left = tally.waiting + tally.asked
    words = [f"{number(tally.tokens_saved)} tokens saved"]
    if rate:
        words.append(f"{rate:,.0f} a minute")
        if left:
            words.append(f"{duration(left / rate * 60_000)} left")
    return ", ".join(words)
