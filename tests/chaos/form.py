"""How large a chaos run is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What the run stands on: one or several hosts, or the deployment without any server."""

    POSTGRESQL = "postgresql"
    SQLITE = "sqlite"


@dataclass(frozen=True, slots=True)
class Form:
    """`turns` over `sessions`, and `kills` of workers meanwhile; the rest of the monkey's acts
    follow from these. `pace` is the mean pause of a gateway between two turns in seconds,
    `bound` the seconds within which all that is due has to be done afterwards."""

    kind: Kind
    seed: int
    turns: int
    kills: int
    sessions: int = 50
    workers: int = 3
    gateways: int = 2
    pace: float = 0.3
    lease_seconds: float = 6.0
    bound: float = 180.0

    @property
    def hurried(self) -> bool:
        """Whether the half minute after which a notification counts as lost passes faster."""
        return self.turns < 2000
