"""Numbers, shares, times and tables as people read them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from rich import box
from rich.table import Table
from rich.text import Text

from afterturn.console import plain

NONE = "–"


def number(value: int | None) -> str:
    """`12,345`, or a dash for None."""
    return NONE if value is None else f"{value:,}"


def share(value: float | None) -> str:
    """A share as `12.3 %`, or a dash for None."""
    return NONE if value is None else f"{100 * value:.1f} %"


def moment(ms: int | None) -> str:
    """Milliseconds since 1970 as local date and time, or a dash for None."""
    if ms is None:
        return NONE
    return f"{datetime.fromtimestamp(ms / 1000, UTC).astimezone():%Y-%m-%d %H:%M}"


def clock(ms: int, now: int) -> str:
    """A local time near `now`: `12:40`, with the date where that is another day's."""
    then, today = (datetime.fromtimestamp(at / 1000, UTC).astimezone() for at in (ms, now))
    return f"{then:%H:%M}" if then.date() == today.date() else f"{then:%Y-%m-%d %H:%M}"


def until(ms: int, now: int) -> str:
    """A time to come, with how long that is from `now`: `until 12:40, for 8 min`."""
    return f"until {clock(ms, now)}, for {duration(max(0, ms - now))}"


def moment_utc(ms: int | None) -> str | None:
    """Milliseconds since 1970 in the form of ISO 8601 for programs, UTC."""
    return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC).isoformat()


def duration(ms: float) -> str:
    """Milliseconds in the largest unit that fits: `820 ms`, `12.0 s`, `3 min`, `5 h`, `2 d`."""
    seconds = ms / 1000
    for limit, unit, size, digits in (
        (1, "ms", 0.001, 0),
        (120, "s", 1, 1),
        (7200, "min", 60, 0),
        (172_800, "h", 3600, 0),
    ):
        if seconds < limit:
            return f"{seconds / size:.{digits}f} {unit}"
    return f"{seconds / 86400:.0f} d"


def count(value: int, noun: str, plural: str = "") -> str:
    """`1 turn`, `2 turns`; `plural` where it is no `s` that is added."""
    return f"{value:,} {noun if value == 1 else plural or f'{noun}s'}"


def facts(pairs: Iterable[tuple[str, str]]) -> Table:
    """A list of names and what they are."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in pairs:
        table.add_row(name, plain(value))
    return table


def columns(*headings: str, title: str | None = None) -> Table:
    """An empty table; a heading that starts with `>` is that of a column of numbers."""
    table = Table(
        box=box.SIMPLE_HEAD, title=title, title_justify="left", title_style="bold", pad_edge=False
    )
    for heading in headings:
        numeric = heading.startswith(">")
        table.add_column(
            heading.removeprefix(">"),
            justify="right" if numeric else "left",
            no_wrap=numeric,
            overflow="fold",
        )
    return table


def cell(text: str, style: str = "") -> Text:
    """A cell whose text is not ours: nothing in it is taken as markup or steers a terminal."""
    return Text(plain(text), style=style)
