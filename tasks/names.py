"""Names that gateways, workers and the schedule agree on: queues and tasks."""

from __future__ import annotations

from typing import Final

TURNS: Final = "turns"
MICRO: Final = "micro"
BATCH: Final = "batch"
PRUNE: Final = "prune"
RECOMPACT: Final = "recompact"
MAINTENANCE: Final = "maintenance"

QUEUES: Final = (TURNS, MICRO, BATCH, PRUNE, RECOMPACT, MAINTENANCE)

FINALIZE: Final = "turns.finalize"
ABSORB: Final = "micro.absorb"
SUMMARISE: Final = "batch.summarise"
SHORTEN: Final = "prune.shorten"

TASK_OF_KIND: Final = {
    "turn": FINALIZE,
    "micro": ABSORB,
    "batch": SUMMARISE,
    "prune": SHORTEN,
}
"""The task that runs a job of this kind."""

RECONCILE: Final = "maintenance.reconcile"
RECOVER_ORPHANS: Final = "maintenance.recover_orphans"
SCAN_IDLE: Final = "maintenance.scan_idle"
RETENTION: Final = "maintenance.retention"
DATABASE: Final = "maintenance.database"
INDEX: Final = "maintenance.index"


def signal_channel(owner: str) -> str:
    """Return the Redis channel on which signals of the owner's sessions are published."""
    return f"afterturn:signals:{owner}"
