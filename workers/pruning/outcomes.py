"""What became of a pruning pass."""

from __future__ import annotations

from dataclasses import dataclass

from workers.micro.outcomes import HandedBack, Stale


@dataclass(frozen=True, slots=True)
class OutputPruned:
    """Old tool output is shown in short forms now: rows changed, live tokens before and after."""

    rows: int
    tokens_before: int
    tokens_after: int


@dataclass(frozen=True, slots=True)
class NothingToPrune:
    """Nothing was changed. `reason` says why in a few words; `tokens` is what could have been
    freed, too little to break a prompt cache for."""

    reason: str
    tokens: int = 0


PruneOutcome = OutputPruned | NothingToPrune | Stale | HandedBack
"""How one try of a pruning job ends."""
