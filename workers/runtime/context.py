"""The worker context: what every job of a process works with, built once at start."""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from random import Random

from storage.engine import Database
from workers.policy.failures import RetryPolicy
from workers.runtime.scheduling import Finished, RoundRobin
from workers.settings import SettingsSource
from workers.summariser.contract import Summariser


def _pass_by(_point: str) -> None:
    """Do nothing at a failpoint, as in production."""


def _never() -> bool:
    return False


def new_lease_owner() -> str:
    """Return a name for this process as a lease owner. Process ids recur, so part of it is
    random."""
    return f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:12]}"


def _today() -> date:
    return datetime.now(UTC).date()


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """Database, settings, summariser, and what tests replace: clock, randomness, failpoints.

    `stopping` says that the process is shutting down: jobs then hand back what they have not begun,
    and once it is `out_of_time` also what they have not finished. `failpoint` is called with a name
    at each step of a job, so that a test can fail the job there.
    """

    database: Database
    settings: SettingsSource
    summariser: Summariser
    lease_owner: str = field(default_factory=new_lease_owner)
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    rng: Random = field(default_factory=Random)
    today: Callable[[], date] = _today
    stopping: Callable[[], bool] = _never
    out_of_time: Callable[[], bool] = _never
    failpoint: Callable[[str], None] = _pass_by
    round_robin: RoundRobin = field(default_factory=RoundRobin)
    finished: Finished = field(default_factory=Finished)

    @property
    def actor(self) -> str:
        """The name of this process in the audit trail."""
        return f"worker {self.lease_owner}"

    @property
    def lease_ms(self) -> int:
        """Milliseconds that a claim lasts without renewal."""
        return int(self.settings.current().worker.lease_seconds * 1000)

    @property
    def bulk_at_once(self) -> int:
        """Most bulk jobs that may be under way at once."""
        return self.settings.current().worker.bulk_at_once

    @property
    def deadline_ms(self) -> int:
        """Milliseconds that one pass may take, renewals included: the ceilings of all models in
        the chain plus a minute."""
        settings = self.settings.current()
        models = 1 + len(settings.auxiliary.compression.fallback_chain)
        longest = max(
            settings.compression.context_total_ceiling_seconds,
            settings.compression.hygiene_total_ceiling_seconds,
        )
        return int(1000 * (longest * models + 60))
