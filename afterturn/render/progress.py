"""The one progress display: bars and a step on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from afterturn.render.console import plain

BAR_WIDTH = 30
LINE_SECONDS = 10.0
"""Pause between two lines of a bar where there is no terminal."""


class Steps(Protocol):
    """Receives what a command does, from any thread."""

    def step(self, text: str) -> None:
        """Show what is being done now."""

    def remark(self, text: str) -> None:
        """Write a line that stays on the screen."""


class Progress(Steps, Protocol):
    """Receives how far a command is too."""

    def bar(self, name: str, done: int, of: int | None, text: str = "") -> None:
        """Show that `done` of `of` (None: not known yet) are done, on a bar of that name.

        `text` follows the numbers, so that it may begin with what is counted.
        """

    def gauge(self, name: str, share: float, text: str, style: str = "cyan") -> None:
        """Show a share on a bar of that name. Only a terminal shows gauges."""


@contextmanager
def show_progress(
    console: Console, *, every: int | None = None, seconds: float | None = LINE_SECONDS
) -> Iterator[Progress]:
    """Show progress on `console` until the end of the block.

    On a terminal the display is gone afterwards. Elsewhere each step and remark is a line, and a
    bar writes one after `every` more done, or without that after `seconds` (None: never); when
    all is done it writes one in any case.
    """
    if not console.is_interactive:
        yield _Lines(console, every, seconds)
        return
    display = _Display(console)
    with Live(display, console=console, transient=True, refresh_per_second=8):
        yield display


class _Lines:
    def __init__(self, console: Console, every: int | None, seconds: float | None) -> None:
        self._console = console
        self._every = every
        self._seconds = seconds
        self._last: dict[str, tuple[int, float]] = {}

    def step(self, text: str) -> None:
        self.remark(text)

    def bar(self, name: str, done: int, of: int | None, text: str = "") -> None:
        if not self._is_due(name, done, of):
            return
        self._last[name] = (done, time.monotonic())
        size = "" if of is None else f" of {of:,}"
        width = 1 if of is None else len(f"{of:,}")
        self.remark(f"{name} {done:>{width},}{size} {text}".strip())

    def _is_due(self, name: str, done: int, of: int | None) -> bool:
        last = self._last.get(name)
        if self._every is not None:
            before = 0 if last is None else last[0]
            return done - before >= self._every or (done == of and done != before)
        if self._seconds is None or (last is not None and last[0] == done == of):
            return False
        return last is None or done == of or time.monotonic() - last[1] >= self._seconds

    def gauge(self, name: str, share: float, text: str, style: str = "cyan") -> None:
        pass

    def remark(self, text: str) -> None:
        self._console.print(Text(plain(text)), soft_wrap=True)


class _Display:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._bars: dict[str, tuple[ProgressBar, str]] = {}
        self._spinner = Spinner("dots")
        self._step = ""
        self._began = time.monotonic()

    def step(self, text: str) -> None:
        self._step = plain(text)

    def bar(self, name: str, done: int, of: int | None, text: str = "") -> None:
        size = f"{done:,}" if of is None else f"{done:,} of {of:,}"
        # Without a total the bar pulses; with nothing to do at all it is full.
        share = None if of is None else 1.0 if of == 0 else done / of
        self._draw(name, share, f"{size} {text}".rstrip(), "cyan")

    def gauge(self, name: str, share: float, text: str, style: str = "cyan") -> None:
        self._draw(name, share, text, style)

    def _draw(self, name: str, share: float | None, text: str, style: str) -> None:
        bar = ProgressBar(
            total=None if share is None else 1.0,
            completed=0.0 if share is None else min(share, 1.0),
            width=BAR_WIDTH,
            pulse=share is None,
            complete_style=style,
            finished_style=style,
        )
        self._bars[name] = (bar, plain(text))

    def remark(self, text: str) -> None:
        self._console.print(Text(plain(text), style="yellow"))

    def __rich__(self) -> RenderableType:
        """Draw the present state: `Live` asks for it several times a second."""
        screen = Table.grid(padding=(0, 1))
        for column in ({"justify": "right"}, {"width": BAR_WIDTH}, {}):
            screen.add_column(no_wrap=True, **column)
        for name, (bar, text) in list(self._bars.items()):
            screen.add_row(Text(plain(name)), bar, Text(text))
        if not self._step and self._bars:
            return screen
        elapsed = f"{time.monotonic() - self._began:.0f} s"
        line = Table.grid(padding=(0, 1))
        line.add_row(self._spinner, Text(self._step or "starting"), Text(elapsed, style="dim"))
        outer = Table.grid()
        if self._bars:
            outer.add_row(screen)
        outer.add_row(line)
        return outer
