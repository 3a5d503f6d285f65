"""Enqueue work, and withdraw it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    Connection,
    Integer,
    RowMapping,
    bindparam,
    case,
    func,
    literal,
    select,
    update,
)
from sqlalchemy import text as sql

from storage.engine import Database, clock, insert_of
from storage.jobs.terms import CAUSE, DUE_COLUMNS, DueJob, JobKind, JobState, due_job, without_lease
from storage.models import OPEN_JOB, Job, Session, table_of

_JOBS = table_of(Job)
_SESSIONS = table_of(Session)


def enqueue(
    connection: Connection,
    database: Database,
    key: int,
    *,
    kind: JobKind,
    queue: str,
    trigger: str,
    priority: int = 0,
    options: Mapping[str, Any] | None = None,
    delay_ms: int = 0,
    notified: bool = False,
    correlation: Mapping[str, str] | None = None,
) -> DueJob:
    """Make sure that a job of this kind is open for the session and will see what is stored now.

    A due job stays; a running one will be due again when it finishes, with the trigger of highest
    priority that arrived meanwhile. Of two triggers of a due job the one with higher priority
    decides queue, options and, if it is earlier, the time; one of equal or lower priority never
    shortens a wait. `notified` says that the caller notifies a worker itself; that counts only for
    a job that can be claimed now, since a notification for one that waits has no effect.
    `correlation` is the cause, for logs and traces; the newest one that is known stays.
    """
    row = connection.execute(
        _enqueue(database.dialect, database.offset_ms),
        {
            "session_key": key,
            "kind": kind,
            "queue": queue,
            "trigger": trigger,
            "priority": priority,
            "options": json.dumps(options) if options else None,
            "delay_ms": delay_ms,
            "notified": int(notified and delay_ms <= 0),
            "correlation": json.dumps(correlation) if correlation else None,
        },
    ).one()
    return due_job(row)


def withdraw(connection: Connection, database: Database, job_id: int, *, trigger: str) -> bool:
    """Close a due job that is open for `trigger`; False where it runs, is closed, or is open for
    another trigger by now. The caller holds the session's row."""
    closed = connection.execute(
        update(Job)
        .where(Job.id == job_id, Job.state == JobState.DUE, Job.trigger == trigger)
        .values(state=JobState.DONE, attempt=0, tries=0, **without_lease(database.now()))
    )
    return closed.rowcount == 1


def replace_dead(connection: Connection, database: Database, dead: RowMapping) -> None:
    """Enqueue a new job for work that arrived while the dead one ran."""
    if not dead["again"]:
        return
    # An older version did not store the cause of such work.
    prefix = "next_" if dead["next_trigger"] is not None else ""
    cause = {name: dead[f"{prefix}{name}"] for name in CAUSE}
    enqueue(
        connection,
        database,
        dead["session_key"],
        kind=JobKind(dead["kind"]),
        correlation=json.loads(dead["correlation"] or "{}"),
        **{**cause, "options": json.loads(cause["options"] or "{}")},
    )


@cache
def _enqueue(dialect: str, offset_ms: int) -> Any:
    """Build the statement of `enqueue` once: every turn runs it, and building takes longer."""
    now = clock(dialect, offset_ms)
    statement = insert_of(dialect, _JOBS)
    job, new = _JOBS.c, statement.excluded
    running = job.state == literal(JobState.RUNNING.value)
    outranks = ~running & (new.priority > job.priority)
    next_one = running & (func.coalesce(job.next_priority, -1) < new.priority)
    run_at = case((outranks & (new.run_at < job.run_at), new.run_at), else_=job.run_at)
    # An earlier notification still counts, unless it went to another queue.
    notified_at = func.coalesce(new.notified_at, case((~outranks, job.notified_at)))
    given: dict[str, Any] = {
        name: bindparam(name)
        for name in (
            "session_key",
            "kind",
            "queue",
            "trigger",
            "priority",
            "options",
            "correlation",
        )
    }
    owner = select(_SESSIONS.c.owner).where(_SESSIONS.c.key == bindparam("session_key"))
    is_notified = bindparam("notified", type_=Integer) == 1
    return (
        statement.values(
            **given,
            owner=owner.scalar_subquery(),
            run_at=now + bindparam("delay_ms", type_=BigInteger),
            notified_at=case((is_notified, now), else_=None),
            created_at=now,
            updated_at=now,
        )
        .on_conflict_do_update(
            index_elements=[job.session_key, job.kind],
            index_where=sql(OPEN_JOB),
            set_={
                "owner": new.owner,
                "correlation": func.coalesce(new.correlation, job.correlation),
                "again": case((running, 1), else_=job.again),
                "tries": case((outranks, 0), else_=job.tries),
                **{name: case((outranks, new[name]), else_=job[name]) for name in CAUSE},
                **{
                    f"next_{name}": case((next_one, new[name]), else_=job[f"next_{name}"])
                    for name in CAUSE
                },
                "run_at": run_at,
                "notified_at": case((run_at <= now, notified_at), else_=None),
                "updated_at": now,
            },
        )
        .returning(*DUE_COLUMNS)
    )
