"""What jobs are called, and how one is given to callers."""

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
"""Claims in a row that ended without a word, after which a job is dead (it kills its process)."""

CAUSE = ("queue", "trigger", "priority", "options")
"""What a job owes to the trigger that it is open for; of the next one, in columns `next_…`."""

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


# Jobs of a newer version are left to its workers while both run.
# As text: with parameters each run of a statement would spell the list out anew.
KNOWN_KIND = sql(f"jobs.kind IN ({', '.join(repr(kind.value) for kind in JobKind)})")

# A paused queue is neither rung for nor claimed from.
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
    """How a claim came to its end that leaves the job due: what becomes of its attempts."""

    CRASHED = auto()
    """By something that nobody foresaw: the attempt counts."""
    FORESEEN = auto()
    """By a failure that is counted elsewhere. Only claims in a row that ended without a word make
    a job dead, so none before it counts any more."""
    HANDED_BACK = auto()
    """Of the worker's own accord, as at a graceful stop: the attempt is given back."""


@dataclass(frozen=True, slots=True)
class DueJob:
    """A job that a worker may claim: what a ring carries. `session` is the owner's id of it."""

    id: int
    kind: JobKind
    queue: str
    trigger: str
    session: str


@dataclass(frozen=True, slots=True)
class Claim:
    """A job that this holder works on. `fence` is its right to write; `tries` is how often a
    summary was asked for in vain (ENGINE.md §10), apart from the claims that `attempt` counts.
    `reason` is why its last holder gave it back, None where it did not say; `session` is the
    owner's id of the session, `owner` that owner. `correlation` is what caused the job, as far as
    that is known: `event`, the id of a gateway's event, and `traceparent`, the span that made it
    due."""

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
        """Names this run of the job: no other claim of any job has the same."""
        return f"{self.job_id}.{self.fence}"


def due_job(row: Any) -> DueJob:
    """Return the job of a row of `DUE_COLUMNS`."""
    return DueJob(row.id, JobKind(row.kind), row.queue, row.trigger, row.session_id)


def priority_raised() -> ColumnElement[bool]:
    """Return whether a stronger trigger arrived while the job ran."""
    return func.coalesce(Job.next_priority, -1) > Job.priority


def next_cause(taken: ColumnElement[bool]) -> dict[str, Any]:
    """Let the trigger that came meanwhile take the job over where `taken`, and forget it."""
    known = taken & Job.next_trigger.is_not(None)
    columns = Job.__table__.c
    return {
        **{name: case((known, columns[f"next_{name}"]), else_=columns[name]) for name in CAUSE},
        **{f"next_{name}": None for name in CAUSE},
    }


def without_lease(now: ColumnElement[int]) -> dict[str, Any]:
    """Return a job that nobody holds and nobody was rung for."""
    return {
        "lease_owner": None,
        "lease_until": None,
        "deadline_at": None,
        "notified_at": None,
        "again": 0,
        "updated_at": now,
    }
