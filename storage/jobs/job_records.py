"""Jobs as they are shown to people."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, RowMapping, select
from sqlalchemy import text as sql

from storage.engine import Database
from storage.jobs import JobKind, JobState
from storage.models import OPEN_JOB, Job


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A stored job. Times are milliseconds since 1970 (UTC)."""

    id: int
    session_key: int
    kind: JobKind
    state: JobState
    queue: str
    trigger: str
    priority: int
    options: Mapping[str, Any]
    run_at: int
    attempt: int
    tries: int
    fence: int
    lease_owner: str | None
    lease_until: int | None
    again: bool
    reason: str | None


@dataclass(frozen=True, slots=True)
class JobOverview:
    """The state of a job for a caller that waits for it; `left_ms` is the time until it is due."""

    state: JobState
    left_ms: int
    reason: str | None

    @property
    def is_open(self) -> bool:
        return self.state in (JobState.DUE, JobState.RUNNING)


def standing(connection: Connection, database: Database, job_id: int) -> JobOverview | None:
    """Return the state of the job now; None when it is not stored any more."""
    found = connection.execute(
        select(Job.state, Job.run_at - database.now(), Job.reason).where(Job.id == job_id)
    ).first()
    if found is None:
        return None
    state, left_ms, reason = found
    return JobOverview(JobState(state), max(0, left_ms), reason)


def open_jobs(connection: Connection, key: int | None = None) -> list[JobRecord]:
    """Return due and running jobs, of one session or of all."""
    return _read(connection, [sql(OPEN_JOB)] + ([] if key is None else [Job.session_key == key]))


def all_jobs(connection: Connection, key: int) -> list[JobRecord]:
    """Return every stored job of a session."""
    return _read(connection, [Job.session_key == key])


def _read(connection: Connection, conditions: Sequence[Any]) -> list[JobRecord]:
    rows = connection.execute(
        select(*Job.__table__.columns).where(*conditions).order_by(Job.id)
    ).mappings()
    return [_record(row) for row in rows]


def _record(row: RowMapping) -> JobRecord:
    values = {name: row[name] for name in JobRecord.__dataclass_fields__}
    read = {
        "kind": JobKind(row["kind"]),
        "state": JobState(row["state"]),
        "options": json.loads(row["options"] or "{}"),
        "again": bool(row["again"]),
    }
    return JobRecord(**{**values, **read})
