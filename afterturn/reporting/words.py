"""Figures of reports in words."""

from __future__ import annotations

from afterturn.render.words import number


def short(value: float) -> str:
    """`950`, `12.3k`, `4.56M`."""
    size = abs(value)
    if size >= 999_500:
        return f"{value / 1_000_000:,.2f}M"
    if size >= 1_000:
        return f"{value / 1_000:,.1f}k" if size < 99_950 else f"{value / 1_000:,.0f}k"
    return f"{value:,.0f}"


def percent(value: float) -> str:
    """A share as whole percents."""
    return f"{100 * value:,.0f} %"


def amount(value: float | None, currency: str) -> str:
    """Money, or that it is not known (faults F275)."""
    if value is None:
        return "unknown"
    digits = 2 if abs(value) >= 1 or value == 0 else 4
    return f"{value:,.{digits}f} {currency}"


def break_even(passes: int | None) -> str:
    """With which pass a session had won back what passes cost."""
    if passes is None:
        return "not yet"
    return "at once" if passes == 0 else f"pass {number(passes)}"
