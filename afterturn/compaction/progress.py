"""How far a pass is: a line that changes on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import Progress as Bar
from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from afterturn.console import plain


class Progress(Protocol):
    """Told of each step by whatever thread makes it."""

    def step(self, text: str) -> None:
        """What is being done now."""

    def remark(self, text: str) -> None:
        """Something that stays on the screen."""


@contextmanager
def show_progress(console: Console) -> Iterator[Progress]:
    """Show progress on `console` until the end of the block."""
    if not console.is_interactive:
        yield _Lines(console)
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Bar(*columns, console=console, transient=True) as bar:
        yield _Display(bar)


class _Lines:
    def __init__(self, console: Console) -> None:
        self._console = console

    def step(self, text: str) -> None:
        self.remark(text)

    def remark(self, text: str) -> None:
        self._console.print(Text(plain(text)), soft_wrap=True)


class _Display:
    def __init__(self, bar: Bar) -> None:
        self._bar = bar
        self._task = bar.add_task("starting")

    def step(self, text: str) -> None:
        self._bar.update(self._task, description=plain(text))

    def remark(self, text: str) -> None:
        self._bar.console.print(Text(plain(text), style="yellow"))


class Steps:
    """Turns the points that a job reaches into steps: who is asked, and how much is answered."""

    def __init__(self, progress: Progress, *, model: str, requests: int) -> None:
        self._progress = progress
        self._model = model
        self._requests = requests
        self._answered = 0

    def __call__(self, point: str) -> None:
        match point:
            case "planned":
                self._progress.step(f"{self._model} writes the summary")
            case "replied":
                self._answered += 1
                if self._requests > 1:
                    of = f"{self._answered} of about {self._requests} requests"
                    self._progress.step(f"{self._model} writes the summary, {of} done")
            case "gave-up":
                self._progress.step("no attempt is left")
            case "before-commit":
                self._progress.step("storing what came of it")
