"""Names that gateways, workers and the schedule agree on: queues and tasks."""

from __future__ import annotations

from typing import Final

TURNS: Final = "turns"
MICRO: Final = "micro"
BATCH: Final = "batch"
PRUNE: Final = "prune"
RECOMPACT: Final = "recompact"
UPKEEP: Final = "upkeep"

QUEUES: Final = (TURNS, MICRO, BATCH, PRUNE, RECOMPACT, UPKEEP)

FINALIZE: Final = "turns.finalize"
ABSORB: Final = "micro.absorb"
SUMMARISE: Final = "batch.summarise"
SHORTEN: Final = "prune.shorten"
RECONCILE: Final = "upkeep.reconcile"
SWEEP: Final = "upkeep.sweep"
SCAN_IDLE: Final = "upkeep.scan_idle"
FORGET: Final = "upkeep.forget"
TEND: Final = "upkeep.tend"
INDEX: Final = "upkeep.index"

TASK_OF_KIND: Final = {
    "turn": FINALIZE,
    "micro": ABSORB,
    "batch": SUMMARISE,
    "prune": SHORTEN,
}
"""The task that works a job of this kind."""


def signal_channel(owner: str) -> str:
    """The Redis channel on which signals of the owner's sessions are pushed."""
    return f"afterturn:signals:{owner}"
