"""Terms of the jobs table: kinds, states, and the values handed to callers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum, auto
from typing import Any

from sqlalchemy import ColumnElement, case, func, literal_column
from sqlalchemy import text as sql

from storage.models import Job
from storage.types import EscapedText

MAX_CRASHES = 3
"""Claims in a row that ended in silence, after which a job is dead (it kills its process)."""

CAUSE = ("queue", "trigger", "priority", "options")
"""Columns that depend on the trigger that a job is open for; the next one's are `next_…`."""

# As text, since SQLAlchemy does not correlate a subquery with the table of a RETURNING.
SESSION_ID: ColumnElement[str] = literal_column(
    '(SELECT sessions.id FROM sessions WHERE sessions."key" = jobs.session_key)', EscapedText()
).label("session_id")

DUE_COLUMNS = (Job.id, Job.kind, Job.queue, Job.trigger, SESSION_ID)
"""What `due_job` reads."""


class JobKind(StrEnum):
    TURN = "turn"
    MICRO = "micro"
    BATCH = "batch"
    PRUNE = "prune"


# Jobs of a newer version are left to its workers while both versions run.
# As text: with parameters every statement would spell the list out anew.
KNOWN_KIND = sql(f"jobs.kind IN ({', '.join(repr(kind.value) for kind in JobKind)})")

# Jobs of a paused queue are neither notified nor claimed.
NOT_PAUSED = sql(
    "NOT EXISTS (SELECT 1 FROM queue_states"
    " WHERE queue_states.name = jobs.queue AND paused_at IS NOT NULL)"
)


class JobState(StrEnum):
    DUE = "due"
    RUNNING = "running"
    DONE = "done"
    DEAD = "dead"


class Ended(Enum):
    """How a claim ended that leaves the job due, which decides about its attempts."""

    CRASHED = auto()
    """By an unforeseen error: the attempt counts."""
    FORESEEN = auto()
    """By a failure that is counted elsewhere. Only claims in a row that ended in silence make a job
    dead, so earlier ones no longer count."""
    HANDED_BACK = auto()
    """By the worker itself, as at a graceful stop: the attempt is not counted."""


@dataclass(frozen=True, slots=True)
class DueJob:
    """A job that a worker may claim, as notifications carry it. `session` is the owner's id."""

    id: int
    kind: JobKind
    queue: str
    trigger: str
    session: str


@dataclass(frozen=True, slots=True)
class Claim:
    """A job under this worker's lease. `fence` is its right to write; `tries` counts the failed
    requests for a summary, apart from the claims that `attempt` counts. `reason` is why its last
    lease owner released it, None where unknown; `session` is the owner's id of the session, `owner`
    that owner. `correlation` is the cause of the job, as far as known: `event`, the id of a
    gateway's event, and `traceparent`, the span that enqueued it."""

    job_id: int
    session_key: int
    kind: JobKind
    queue: str
    trigger: str
    priority: int
    options: Mapping[str, Any]
    attempt: int
    fence: int
    lease_owner: str
    tries: int = 0
    reason: str | None = None
    session: str = ""
    owner: str | None = None
    correlation: Mapping[str, str] = field(default_factory=dict)

    @property
    def run(self) -> str:
        """The name of this run of the job: no other claim of any job has the same."""
        return f"{self.job_id}.{self.fence}"


def due_job(row: Any) -> DueJob:
    """Return the job of a row of `DUE_COLUMNS`."""
    return DueJob(row.id, JobKind(row.kind), row.queue, row.trigger, row.session_id)


def priority_raised() -> ColumnElement[bool]:
    """Return whether a trigger of higher priority arrived while the job ran."""
    return func.coalesce(Job.next_priority, -1) > Job.priority


def next_cause(taken: ColumnElement[bool]) -> dict[str, Any]:
    """Return values that open the job for the trigger that arrived meanwhile, where `taken`."""
    known = taken & Job.next_trigger.is_not(None)
    columns = Job.__table__.c
    return {
        **{name: case((known, columns[f"next_{name}"]), else_=columns[name]) for name in CAUSE},
        **{f"next_{name}": None for name in CAUSE},
    }


def without_lease(now: ColumnElement[int]) -> dict[str, Any]:
    """Return values of a job without a lease and without a notification."""
    return {
        "lease_owner": None,
        "lease_until": None,
        "deadline_at": None,
        "notified_at": None,
        "again": 0,
        "updated_at": now,
    }
