"""Numbers, shares and times as people read them."""

from __future__ import annotations

from datetime import UTC, datetime

NONE = "–"


def number(value: int | None) -> str:
    """Return `12,345`, or a dash for None."""
    return NONE if value is None else f"{value:,}"


def share(value: float | None) -> str:
    """Return a share as `12.3 %`, or a dash for None."""
    return NONE if value is None else f"{100 * value:.1f} %"


def moment(ms: int | None) -> str:
    """Return local date and time for milliseconds since 1970, a dash for None."""
    if ms is None:
        return NONE
    return f"{datetime.fromtimestamp(ms / 1000, UTC).astimezone():%Y-%m-%d %H:%M}"


def clock(ms: int, now: int) -> str:
    """Return a local time near `now`: `12:40`, with the date if that is another day's."""
    then, today = (datetime.fromtimestamp(at / 1000, UTC).astimezone() for at in (ms, now))
    return f"{then:%H:%M}" if then.date() == today.date() else f"{then:%Y-%m-%d %H:%M}"


def until(ms: int, now: int) -> str:
    """Return a future time with its distance from `now`: `until 12:40, for 8 min`."""
    return f"until {clock(ms, now)}, for {duration(max(0, ms - now))}"


def moment_utc(ms: int | None) -> str | None:
    """Return milliseconds since 1970 as ISO 8601 in UTC, for programs."""
    return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC).isoformat()


def duration(ms: float) -> str:
    """Return milliseconds in the unit that fits: `820 ms`, `12.0 s`, `3 min`, `5 h`, `2 d`."""
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
    """Return `1 turn`, `2 turns`; `plural` is for words whose plural takes more than an `s`."""
    return f"{value:,} {noun if value == 1 else plural or f'{noun}s'}"
