"""What a benchmark reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured value and the bar that it must not exceed, if there is one.

    `unit` is that of value and bar: `x` for a ratio, else a unit of time, size or speed. `detail`
    says in a few words what the value was made from.
    """

    name: str
    database: str
    value: float
    unit: str
    bar: float | None = None
    detail: str = ""

    @property
    def verdict(self) -> str:
        """`ok`, `over`, or `reported` where there is no bar."""
        if self.bar is None:
            return "reported"
        return "ok" if self.value <= self.bar else "over"

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "database": self.database,
            "value": round(self.value, 4),
            "unit": self.unit,
            "bar": self.bar,
            "verdict": self.verdict,
            "detail": self.detail,
        }
