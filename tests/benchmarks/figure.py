"""What a benchmark reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured value and the bar that it must not exceed, if there is one.

    `least` is a bar that it must reach instead. `unit` is that of value and bar: `x` for a ratio,
    else a unit of time, size or speed. `detail` says in a few words what the value was made from.
    """

    name: str
    database: str
    value: float
    unit: str
    bar: float | None = None
    detail: str = ""
    least: float | None = None

    @property
    def verdict(self) -> str:
        """`ok`, `over`, `under`, or `reported` where there is no bar."""
        if self.bar is not None and self.value > self.bar:
            return "over"
        if self.least is not None and self.value < self.least:
            return "under"
        return "reported" if self.bar is None and self.least is None else "ok"

    @property
    def missed(self) -> bool:
        """Whether it is on the wrong side of its bar."""
        return self.verdict in ("over", "under")

    @property
    def must_reach(self) -> str:
        """The bar in words, empty where there is none."""
        bars = (("≤", self.bar), ("≥", self.least))
        return ", ".join(f"{sign} {bar:g} {self.unit}" for sign, bar in bars if bar is not None)

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "database": self.database,
            "value": round(self.value, 4),
            "unit": self.unit,
            "bar": self.bar,
            "least": self.least,
            "verdict": self.verdict,
            "detail": self.detail,
        }
