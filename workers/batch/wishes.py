"""What a person may ask of a compaction (ENGINE.md §9, rows 11–14)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

AROUND_TURNS = 2
"""Turns on either side of the one that `around` names which a pass takes with it."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """A topic that gets most of the room, and which part to compact; None is the usual one.

    `keep_last` is how many of the newest turns stay word for word. `up_to` is the position of the
    last message to compact, `around` one in the middle of the turns to compact.
    """

    focus: str = ""
    keep_last: int | None = None
    up_to: int | None = None
    around: int | None = None

    @property
    def whole(self) -> bool:
        """Whether the usual part is meant."""
        return self.keep_last is None and self.up_to is None and self.around is None

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Wishes:
        """Read the options of a job; those of a newer version are left out."""
        return cls(**{name: options[name] for name in cls.__dataclass_fields__ if name in options})

    def options(self) -> dict[str, Any]:
        """The options of a job that carries these wishes."""
        return {name: value for name, value in asdict(self).items() if value not in (None, "")}
