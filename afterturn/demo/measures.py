"""What is measured while a conversation is played."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TurnMeasure:
    """The session after a turn. Tokens are estimates; `live_tokens` is what the view holds when
    the next request is sent, `peak_tokens` what it held as soon as the turn was stored, if that
    was more. `unmanaged_tokens` is what it would hold without compaction, `kept_tokens` the user
    messages in it. `finalize_ms` is how long the gateway waited for `finalize_turn`."""

    turn: int
    live_tokens: int
    peak_tokens: int
    unmanaged_tokens: int
    kept_tokens: int
    passes: int
    finalize_ms: float


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Middle, 99th of a hundred, and worst."""

    p50: float
    p99: float
    worst: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Percentiles:
        """The values at those ranks (nearest rank, nothing interpolated); values must not be
        empty."""
        ordered = sorted(values)

        def at(share: float) -> float:
            return ordered[max(0, math.ceil(share * len(ordered)) - 1)]

        return cls(at(0.5), at(0.99), ordered[-1])
