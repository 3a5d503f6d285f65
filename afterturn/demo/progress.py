"""How far a demo is, on a terminal or in lines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from afterturn.demo.measures import TurnMeasure
from afterturn.render.words import number, share

LINES_EVERY = 50
"""Turns between two lines where there is no terminal."""

_FULL, _FILLING = 0.85, 0.5


class Progress(Protocol):
    """Told of every turn, and of the wait at the end."""

    def turn(self, measure: TurnMeasure) -> None: ...

    def settling(self) -> None: ...


@contextmanager
def show_progress(console: Console, *, turns: int, threshold: int) -> Iterator[Progress]:
    """Show progress on `console`: a display that changes and goes away at the end, or plain lines
    where it is no terminal."""
    if not console.is_interactive:
        yield _Lines(console, turns, threshold)
        return
    with Live(console=console, transient=True, refresh_per_second=8) as live:
        yield _Display(live, turns, threshold)


class _Lines:
    def __init__(self, console: Console, turns: int, threshold: int) -> None:
        self._console, self._turns, self._threshold = console, turns, threshold

    def turn(self, measure: TurnMeasure) -> None:
        if measure.turn % LINES_EVERY and measure.turn != self._turns:
            return
        live, unmanaged = measure.live_tokens, measure.unmanaged_tokens
        self._console.print(
            f"turn {measure.turn:>4} of {self._turns}: "
            f"live {number(live)} tokens ({share(live / self._threshold)}), "
            f"without compaction {number(unmanaged)} ({share(unmanaged / self._threshold)}), "
            f"passes {measure.passes}"
        )

    def settling(self) -> None:
        self._console.print("waiting for the last jobs")


class _Display:
    def __init__(self, live: Live, turns: int, threshold: int) -> None:
        self._live, self._turns, self._threshold = live, turns, threshold
        self._slowest = 0.0

    def turn(self, measure: TurnMeasure) -> None:
        self._slowest = max(self._slowest, measure.finalize_ms)
        self._live.update(self._picture(measure))

    def settling(self) -> None:
        self._live.update(Text("Waiting for the last jobs …"))

    def _picture(self, measure: TurnMeasure) -> RenderableType:
        table = Table.grid(padding=(0, 1), expand=False)
        table.add_column(justify="right", no_wrap=True)
        table.add_column(width=30)
        table.add_column(no_wrap=True)
        table.add_row(
            "turn",
            _bar(measure.turn / self._turns, "cyan"),
            f"{measure.turn} of {self._turns}",
        )
        for name, tokens in (
            ("live view", measure.live_tokens),
            ("without", measure.unmanaged_tokens),
        ):
            full = tokens / self._threshold
            table.add_row(
                name, _bar(full, _colour(full)), f"{share(full)}, {number(tokens)} tokens"
            )
        rest = (
            f"{measure.passes} passes, slowest finalize_turn {self._slowest:.1f} ms, "
            f"threshold {number(self._threshold)} tokens"
        )
        return Group(table, Text(rest, style="dim"))


def _bar(part: float, colour: str) -> ProgressBar:
    return ProgressBar(
        total=1.0, completed=min(part, 1.0), width=30, complete_style=colour, finished_style=colour
    )


def _colour(occupancy: float) -> str:
    if occupancy >= _FULL:
        return "red"
    return "yellow" if occupancy >= _FILLING else "green"
