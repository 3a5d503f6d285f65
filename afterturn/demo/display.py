"""A demo on the terminal: progress while it plays, and a table, a plot and a verdict at the end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from afterturn.demo.figures import MOST_GROWTH, Figures
from afterturn.demo.play import TurnMeasure
from afterturn.report.plot import legend, occupancy_plot
from afterturn.words import columns, number, share

LINES_EVERY = 50
"""Turns between two lines where there is no terminal."""

_FULL, _FILLING = 0.85, 0.5


class Progress(Protocol):
    """A display that gets every turn, and the wait at the end."""

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


def show_report(console: Console, figures: Figures) -> None:
    """Print the whole report."""
    console.print(_table(figures))
    if not console.options.ascii_only:
        console.print(legend(unmanaged="without afterturn", managed="with"))
        console.print(_plot(figures, width=console.width))
    console.print()
    for name, good in figures.checks.items():
        mark = Text("ok  ", style="green") if good else Text("FAIL", style="bold red")
        console.print(Text.assemble(mark, "  ", _words(name, figures)))
    if figures.flatness.flat is None:
        console.print(Text("-     too short to tell whether occupancy stays flat", style="dim"))
    console.print()
    console.print(_verdict(figures))


def _plot(figures: Figures, *, width: int) -> Text:
    measures = figures.measures
    return occupancy_plot(
        [measure.turn for measure in measures],
        unmanaged=[measure.unmanaged_tokens for measure in measures],
        managed=[measure.live_tokens for measure in measures],
        threshold=figures.threshold,
        width=width,
    )


def _table(figures: Figures) -> Table:
    table = columns("", ">without", ">with afterturn")
    for row in _rows(figures):
        table.add_row(*row)
    return table


def _rows(figures: Figures) -> Iterator[tuple[str, str, str]]:
    found, finalize, flatness = figures.findings, figures.finalize, figures.flatness
    unmanaged, threshold = figures.tokens_unmanaged, figures.threshold
    full, of = share(unmanaged / threshold), "% of the threshold"
    yield "messages in the live view", number(figures.messages), number(found.live_messages)
    yield "tokens in the live view", number(unmanaged), number(found.live_tokens)
    yield f"in % of the threshold ({number(threshold)})", full, share(found.live_tokens / threshold)
    yield f"  at most, {of}", full, share(figures.occupancy_max)
    yield (
        f"  grown over the last third, {of}",
        share(flatness.unmanaged),
        share(flatness.growth),
    )
    yield (
        f"    by the user's own messages, {of}",
        share(flatness.kept),
        share(flatness.kept),
    )
    yield "passes of micro-compaction", "", number(found.passes)
    yield "finalize_turn, middle", "", f"{finalize.p50:.1f} ms"
    yield "finalize_turn, 99 of 100", "", f"{finalize.p99:.1f} ms"
    yield "finalize_turn, slowest", "", f"{finalize.worst:.1f} ms"


def _words(check: str, figures: Figures) -> str:  # noqa: PLR0911 - one sentence per check
    found = figures.findings
    match check:
        case "nothing_lost":
            return (
                f"{number(figures.messages)} messages sent, {number(found.lost_messages)} lost: "
                f"{number(found.live_messages)} live, {number(found.archived_messages)} archived"
            )
        case "nothing_twice":
            return f"{number(found.duplicate_messages)} stored twice"
        case "nothing_altered":
            order = "in their order" if found.in_order else "not in their order"
            return f"{number(found.altered_messages)} altered, {order}"
        case "user_messages_verbatim":
            return f"{number(found.user_messages)} user messages word for word in the live view"
        case "at_most_one_marker":
            return f"{found.live_markers} live marker, at most 1"
        case "counters_right":
            return f"{number(found.counted_tokens)} live tokens when counted row by row"
        case "no_batch_pass_needed":
            return f"{figures.batch_passes_needed} batch passes needed"
        case "no_job_left":
            return f"{figures.open_jobs} jobs left"
        case "occupancy_flat":
            return (
                f"last third: grown by {share(figures.flatness.beyond_kept)} of the threshold "
                f"beyond the user's own messages, at most {share(MOST_GROWTH)}"
            )
        case _:
            return check


def _verdict(figures: Figures) -> Text:
    facts = f"{figures.turns} turns in {figures.seconds:.0f} s, summaries by {figures.summariser}"
    if figures.good:
        return Text.assemble(("PASS", "bold green"), f"  {facts}")
    bad = ", ".join(name for name, good in figures.checks.items() if not good)
    return Text.assemble(("FAIL", "bold red"), f"  {bad}; {facts}")
