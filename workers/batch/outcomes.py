"""What became of a batch pass."""

from __future__ import annotations

from dataclasses import dataclass

from workers.micro.outcomes import Failed, HandedBack, Stale


@dataclass(frozen=True, slots=True)
class Figures:
    """Rows that left the view, and the live tokens before and after."""

    rows: int
    tokens_before: int
    tokens_after: int


@dataclass(frozen=True, slots=True)
class Compacted(Figures):
    """A summary took the middle's place."""


@dataclass(frozen=True, slots=True)
class Folded(Figures):
    """A placeholder took the middle's place, because the summariser failed."""


@dataclass(frozen=True, slots=True)
class Healed(Figures):
    """A real summary took a placeholder's place."""


@dataclass(frozen=True, slots=True)
class Reset(Figures):
    """Everything but head, last good summary and newest turn was archived."""


@dataclass(frozen=True, slots=True)
class PrunedEnough(Figures):
    """Shortening old tool output was enough: no model was asked."""


@dataclass(frozen=True, slots=True)
class NothingToCompact:
    """The middle is empty or too small. Not a failure."""

    reason: str


@dataclass(frozen=True, slots=True)
class NotSmaller:
    """The summary would not have made the view smaller; it was refused."""

    tokens: int


@dataclass(frozen=True, slots=True)
class HeldBack:
    """A guard holds automatic passes back."""

    reason: str


@dataclass(frozen=True, slots=True)
class GaveUp:
    """The last attempt failed and the session stays as it is. `failed` is None where an earlier
    claim of the job has recorded it."""

    failed: Failed | None


BatchOutcome = (
    Compacted
    | Folded
    | Healed
    | Reset
    | PrunedEnough
    | NothingToCompact
    | NotSmaller
    | HeldBack
    | GaveUp
    | Failed
    | Stale
    | HandedBack
)
