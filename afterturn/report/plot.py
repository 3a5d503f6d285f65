"""Occupancy over the turns as a picture made of characters."""

from __future__ import annotations

from collections.abc import Sequence

import plotext
from rich.text import Text

HEIGHT = 15
MOST_WIDTH = 100
UNMANAGED, MANAGED, THRESHOLD = "red", "green", "blue"
_UNMANAGED_MARKER, _MANAGED_MARKER = "braille", "hd"


def occupancy_plot(
    turns: Sequence[int],
    *,
    unmanaged: Sequence[int],
    managed: Sequence[int],
    threshold: int,
    width: int,
) -> Text:
    """Draw the share of the threshold after each turn, without and with compaction.

    `unmanaged` and `managed` are live tokens, one for each of `turns`, of which there is at least
    one. The lines differ in shape too, as colours may be missing. `width` is in columns.
    """
    of = max(1, threshold)
    lower = [100 * tokens / of for tokens in managed]
    upper = [100 * tokens / of for tokens in unmanaged]
    top = max(100.0, *lower, *upper) * 1.05
    # The library keeps one figure per process.
    figure = plotext.figure
    figure.clear()
    figure.theme("colorless")
    figure.plot_size(min(width, MOST_WIDTH), HEIGHT)
    percents = list(range(0, int(top) + 1, 25))
    figure.ruler("y").lim(0, top)
    figure.ruler("y").ticks(percents, [f"{percent} %" for percent in percents])
    marks = sorted({turns[0], *(turns[len(turns) * part // 4] for part in (1, 2, 3)), turns[-1]})
    figure.ruler("x").ticks(marks, [str(mark) for mark in marks])
    figure.line(100, pixel=plotext.pixel(THRESHOLD))
    for values, symbol, colour in (
        (upper, _UNMANAGED_MARKER, UNMANAGED),
        (lower, _MANAGED_MARKER, MANAGED),
    ):
        marker = plotext.marker(symbol, plotext.pixel(colour))
        figure.draw(figure.signal(turns, values, marker=marker).lines())
    drawn = figure.build().string()
    figure.clear()
    return Text.from_ansi(drawn.rstrip("\n"))


def legend(*, unmanaged: str, managed: str) -> Text:
    """Return the legend of the plot, with these names of its lines."""
    return Text.assemble(
        "Live tokens in % of the threshold, by turn:  ",
        (f"▄▄ {managed}", MANAGED),
        "  ",
        (f"⠤⠤ {unmanaged}", UNMANAGED),
    )
