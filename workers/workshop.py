"""What every job works with, made once per process at its edge."""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from random import Random

from storage.engine import Database
from storage.jobs import Claim
from workers.finished import Finished
from workers.retry import RetryPolicy
from workers.rota import Rota
from workers.settings_file import SettingsSource
from workers.summariser.contract import Summariser


def _pass_by(_point: str) -> None:
    """A debug point where nothing happens, as in production."""


def _never() -> bool:
    return False


def new_holder() -> str:
    """A name for this process as a holder of jobs: process ids recur, so it is random (F174)."""
    return f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:12]}"


def _today() -> date:
    return datetime.now(UTC).date()


@dataclass(frozen=True, slots=True)
class Pruned:
    """What shortening old tool output came to: rows changed and live tokens freed."""

    rows: int = 0
    tokens: int = 0


def _prune_first(shop: Workshop, claim: Claim) -> Pruned:
    """The rules of ENGINE.md §8."""
    # What it does is done with a workshop, so it can only be imported once there is one.
    from workers.pruning.layer import prune_first  # noqa: PLC0415

    return prune_first(shop, claim)


@dataclass(frozen=True, slots=True)
class Workshop:
    """Database, settings, summariser, and what tests replace: clock, chance, debug points.

    `stopping` tells that the process wants to end: jobs then give back what they have not begun,
    and once it is `out_of_time` what they have not finished either. `reach` is called with a name
    at each step of a job; a test breaks off there. `prune` is the first layer of a batch pass: it
    shortens old tool output of a claimed job's session, in a transaction of its own (ENGINE.md
    §6.1). `rota` remembers whom this process served last, `finished` the jobs that it has closed.
    """

    database: Database
    settings: SettingsSource
    summariser: Summariser
    holder: str = field(default_factory=new_holder)
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    rng: Random = field(default_factory=Random)
    today: Callable[[], date] = _today
    stopping: Callable[[], bool] = _never
    out_of_time: Callable[[], bool] = _never
    reach: Callable[[str], None] = _pass_by
    prune: Callable[[Workshop, Claim], Pruned] = _prune_first
    rota: Rota = field(default_factory=Rota)
    finished: Finished = field(default_factory=Finished)

    @property
    def actor(self) -> str:
        """Who does what this process does, for the audit trail."""
        return f"worker {self.holder}"

    @property
    def lease_ms(self) -> int:
        """How long a claim lasts without renewal."""
        return int(self.settings.current().worker.lease_seconds * 1000)

    @property
    def bulk_at_once(self) -> int:
        """How many bulk jobs may be under way."""
        return self.settings.current().worker.bulk_at_once

    @property
    def deadline_ms(self) -> int:
        """How long one pass may take, renewals included: the ceiling of every model in the chain
        and a minute (ENGINE.md §10)."""
        settings = self.settings.current()
        models = 1 + len(settings.auxiliary.compression.fallback_chain)
        longest = max(
            settings.compression.context_total_ceiling_seconds,
            settings.compression.hygiene_total_ceiling_seconds,
        )
        return int(1000 * (longest * models + 60))
