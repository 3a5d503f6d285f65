"""Jobs as people look at them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, RowMapping, select
from sqlalchemy import text as sql

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
    run_at: int
    attempt: int
    fence: int
    holder: str | None
    lease_until: int | None
    again: bool
    reason: str | None


def open_jobs(connection: Connection, key: int | None = None) -> list[JobRecord]:
    """Due and running jobs, of one session or of all."""
    return _read(connection, [sql(OPEN_JOB)] + ([] if key is None else [Job.session_key == key]))


def all_jobs(connection: Connection, key: int) -> list[JobRecord]:
    """Every job that a session ever had and that is still stored."""
    return _read(connection, [Job.session_key == key])


def _read(connection: Connection, conditions: Sequence[Any]) -> list[JobRecord]:
    rows = connection.execute(
        select(*Job.__table__.columns).where(*conditions).order_by(Job.id)
    ).mappings()
    return [_record(row) for row in rows]


def _record(row: RowMapping) -> JobRecord:
    values = {name: row[name] for name in JobRecord.__dataclass_fields__}
    kind, state = JobKind(row["kind"]), JobState(row["state"])
    return JobRecord(**{**values, "kind": kind, "state": state, "again": bool(row["again"])})
