"""The jobs table: due, claim, renew, finish, release, bury, ring (ARCHITECTURE.md, *Jobs*).

States: `due` waits for `run_at` and a worker; `running` is held by a worker until its lease ends;
`done` and `dead` are closed. Of open (due or running) jobs there is at most one per session and
kind, of running ones at most one per session. The fence grows at every claim; every statement
here that writes for a holder carries it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Integer,
    RowMapping,
    bindparam,
    case,
    exists,
    func,
    literal,
    literal_column,
    or_,
    select,
    true,
    update,
)
from sqlalchemy import text as sql
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import aliased

from storage import sessions
from storage.engine import Database, clock, insert_of
from storage.errors import FenceLost
from storage.escape import EscapedText
from storage.models import DUE_JOB, OPEN_JOB, RUNNING_JOB, Job, table_of

MAX_CRASHES = 3
"""Claims in a row that ended without a word, after which a job is dead (it kills its process)."""

_J = Job
_JOBS = table_of(Job)
# As text, since SQLAlchemy does not correlate a subquery with the table of a RETURNING.
_SESSION_ID: ColumnElement[str] = literal_column(
    '(SELECT sessions.id FROM sessions WHERE sessions."key" = jobs.session_key)', EscapedText()
).label("session_id")
_CAUSE = ("queue", "trigger", "strength", "options")
"""What a job owes to the trigger that it is open for; of the next one, in columns `next_…`."""
_DUE = (_J.id, _J.kind, _J.queue, _J.trigger, _SESSION_ID)


class JobKind(StrEnum):
    TURN = "turn"
    MICRO = "micro"
    BATCH = "batch"


# Jobs of a newer version are left to its workers while both run.
_KNOWN_KIND = _J.kind.in_(list(JobKind))


class JobState(StrEnum):
    DUE = "due"
    RUNNING = "running"
    DONE = "done"
    DEAD = "dead"


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
    `reason` is why its last holder gave it back, None where it did not say."""

    job_id: int
    session_key: int
    kind: JobKind
    queue: str
    trigger: str
    strength: int
    options: Mapping[str, Any]
    attempt: int
    fence: int
    holder: str
    tries: int = 0
    reason: str | None = None


def make_due(
    connection: Connection,
    database: Database,
    key: int,
    *,
    kind: JobKind,
    queue: str,
    trigger: str,
    strength: int = 0,
    options: Mapping[str, Any] | None = None,
    delay_ms: int = 0,
    ringing: bool = False,
) -> DueJob:
    """Make sure that a job of this kind is open for the session and will see what is stored now.

    A due job stays, a running one will be due again when it finishes, for the strongest of the
    triggers that came meanwhile. Of two triggers of a due job the stronger one decides queue,
    options and, if it is earlier, the time; an equal or weaker one never cuts a wait short.
    `ringing` says that the caller rings itself; that counts only for a job that can be claimed
    now, since the ring for one that waits comes to nothing.
    """
    row = connection.execute(
        _make_due(database.dialect, database.offset_ms),
        {
            "session_key": key,
            "kind": kind,
            "queue": queue,
            "trigger": trigger,
            "strength": strength,
            "options": json.dumps(options) if options else None,
            "delay_ms": delay_ms,
            "ringing": int(ringing and delay_ms <= 0),
        },
    ).one()
    return _due(row)


@cache
def _make_due(dialect: str, offset_ms: int) -> Any:
    """The statement of `make_due`, built once: every turn runs it, and building takes longer."""
    now = clock(dialect, offset_ms)
    statement = insert_of(dialect, _JOBS)
    job, new = _JOBS.c, statement.excluded
    running = job.state == literal(JobState.RUNNING.value)
    stronger = ~running & (new.strength > job.strength)
    next_one = running & (func.coalesce(job.next_strength, -1) < new.strength)
    run_at = case((stronger & (new.run_at < job.run_at), new.run_at), else_=job.run_at)
    given: dict[str, Any] = {
        name: bindparam(name)
        for name in ("session_key", "kind", "queue", "trigger", "strength", "options")
    }
    rings = bindparam("ringing", type_=Integer) == 1
    return (
        statement.values(
            **given,
            run_at=now + bindparam("delay_ms", type_=BigInteger),
            rung_at=case((rings, now), else_=None),
            created_at=now,
            updated_at=now,
        )
        .on_conflict_do_update(
            index_elements=[job.session_key, job.kind],
            index_where=sql(OPEN_JOB),
            set_={
                "again": case((running, 1), else_=job.again),
                "tries": case((stronger, 0), else_=job.tries),
                **{name: case((stronger, new[name]), else_=job[name]) for name in _CAUSE},
                **{
                    f"next_{name}": case((next_one, new[name]), else_=job[f"next_{name}"])
                    for name in _CAUSE
                },
                "run_at": run_at,
                "rung_at": case((run_at <= now, new.rung_at), else_=None),
                "updated_at": now,
            },
        )
        .returning(*_DUE)
    )


def claim(
    connection: Connection,
    database: Database,
    job_id: int,
    *,
    holder: str,
    lease_ms: int,
    deadline_ms: int,
) -> Claim | None:
    """Take a due job; None when it is not due, not there, or its session is being worked on.

    The lease ends by the database's clock and never lies past the deadline.
    """
    key = connection.execute(select(_J.session_key).where(_J.id == job_id)).scalar_one_or_none()
    if key is None:
        return None
    sessions.lock(connection, key)
    _rescue(connection, database, _J.session_key == key)
    now = database.now()
    other = aliased(_J, name="other")
    busy = exists().where(other.session_key == key, sql("other." + RUNNING_JOB))
    try:
        found = (
            connection.execute(
                update(_J)
                .where(_J.id == job_id, _J.state == JobState.DUE, _J.run_at <= now, ~busy)
                .values(
                    state=JobState.RUNNING,
                    attempt=_J.attempt + 1,
                    fence=_J.fence + 1,
                    holder=holder,
                    lease_until=now + min(lease_ms, deadline_ms),
                    deadline_at=now + deadline_ms,
                    again=0,
                    updated_at=now,
                )
                .returning(*_J.__table__.columns)
            )
            .mappings()
            .first()
        )
    except IntegrityError:
        # Another job of the session runs. The index says so; nothing is wrong.
        connection.rollback()
        return None
    if found is None:
        return None
    return Claim(
        job_id=found["id"],
        session_key=key,
        kind=JobKind(found["kind"]),
        queue=found["queue"],
        trigger=found["trigger"],
        strength=found["strength"],
        options=json.loads(found["options"] or "{}"),
        attempt=found["attempt"],
        fence=found["fence"],
        holder=holder,
        tries=found["tries"],
        reason=found["reason"],
    )


def renew(connection: Connection, database: Database, claim: Claim, *, lease_ms: int) -> bool:
    """Prolong the lease up to the deadline; False when the job is no longer this holder's.

    A lease that has ended but that nobody has taken over counts as lost too: its holder was
    stopped for so long that it must not be trusted (F173).
    """
    now = database.now()
    until = now + lease_ms
    renewed = connection.execute(
        update(_J)
        .where(*_mine(claim), _J.lease_until > now, _J.deadline_at > now)
        .values(
            lease_until=case((_J.deadline_at < until, _J.deadline_at), else_=until),
            updated_at=now,
        )
    )
    return renewed.rowcount == 1


def check_fence(connection: Connection, claim: Claim) -> None:
    """Make sure, and for the rest of the transaction, that the job is this holder's.

    Raises `FenceLost`.
    """
    if connection.execute(select(_J.id).where(*_mine(claim)).with_for_update()).first() is None:
        raise FenceLost(claim.job_id, claim.fence)


def proceed(
    connection: Connection, database: Database, claim: Claim, *, lease_ms: int, deadline_ms: int
) -> None:
    """Note that a pass was committed: attempts and tries begin anew, and so does the deadline.

    Raises `FenceLost`.
    """
    now = database.now()
    _write(
        connection,
        claim,
        {
            "attempt": 1,
            "tries": 0,
            "lease_until": now + min(lease_ms, deadline_ms),
            "deadline_at": now + deadline_ms,
            "updated_at": now,
        },
    )


def extend(
    connection: Connection, database: Database, claim: Claim, *, lease_ms: int, deadline_ms: int
) -> None:
    """Begin the deadline anew for the next part of a pass. Raises `FenceLost`."""
    now = database.now()
    _write(
        connection,
        claim,
        {"lease_until": now + min(lease_ms, deadline_ms), "deadline_at": now + deadline_ms},
    )


def note_tries(connection: Connection, claim: Claim, tries: int) -> None:
    """Note how often a summary was asked for in vain, lest it be asked for again after a crash.

    Raises `FenceLost`.
    """
    _write(connection, claim, {"tries": tries})


def finish(connection: Connection, database: Database, claim: Claim) -> bool:
    """Close the job as done, or make it due again if work arrived meanwhile; True if it is due.

    Raises `FenceLost`.
    """
    written = _write(connection, claim, _finished(database.dialect, database.offset_ms))
    return bool(written["state"] == JobState.DUE)


@cache
def _finished(dialect: str, offset_ms: int) -> dict[str, Any]:
    """What `finish` writes, built once: every job ends with it."""
    now = clock(dialect, offset_ms)
    return {
        "state": case((_J.again == 1, JobState.DUE), else_=JobState.DONE),
        "attempt": 0,
        "tries": 0,
        "run_at": now,
        **_unheld(now),
        **_next(_J.again == 1),
    }


def release(
    connection: Connection,
    database: Database,
    claim: Claim,
    *,
    delay_ms: int,
    reason: str | None,
    attempt_counts: bool,
    tries: int | None = None,
) -> None:
    """Put the job back to due, to be run `delay_ms` from now. The fence stays.

    A stronger trigger that arrived meanwhile takes the job over, and does not wait. Without
    `attempt_counts` the attempt is given back, as for a graceful stop; `tries` are the summaries
    asked for in vain so far, None leaves them. Raises `FenceLost`.
    """
    stronger = _stronger_came()
    now = database.now()
    _write(
        connection,
        claim,
        {
            "state": JobState.DUE,
            "attempt": _J.attempt - (0 if attempt_counts else 1),
            "tries": case((stronger, 0), else_=_J.tries if tries is None else tries),
            "run_at": case((stronger, now), else_=now + delay_ms),
            "reason": reason,
            **_unheld(now),
            **_next(stronger),
        },
    )


def go_on_as(
    connection: Connection,
    database: Database,
    claim: Claim,
    *,
    queue: str,
    trigger: str,
    strength: int,
    delay_ms: int,
) -> None:
    """Put the job back to due for another cause, to be run `delay_ms` from now, or at once for a
    trigger that arrived meanwhile. Raises `FenceLost`."""
    now = database.now()
    asked = _J.again == 1
    follow_up = {"queue": queue, "trigger": trigger, "strength": strength, "options": None}
    columns = _J.__table__.c
    cause = {
        name: case((asked, func.coalesce(columns[f"next_{name}"], columns[name])), else_=value)
        for name, value in follow_up.items()
    }
    _write(
        connection,
        claim,
        {
            "state": JobState.DUE,
            "attempt": 0,
            "tries": 0,
            "run_at": case((asked, now), else_=now + delay_ms),
            **_unheld(now),
            **{f"next_{name}": None for name in _CAUSE},
            **cause,
        },
    )


def bury(
    connection: Connection, database: Database, claim: Claim, *, reason: str, trace: str
) -> None:
    """Close the job as dead, with what happened. Raises `FenceLost`.

    Work that arrived meanwhile gets a job of its own.
    """
    now = database.now()
    written = _write(
        connection,
        claim,
        {
            "state": JobState.DEAD,
            "reason": reason,
            "trace": trace,
            "failed_first_at": func.coalesce(_J.failed_first_at, now),
            "failed_last_at": now,
            **_unheld(now),
            **_untouched("again", *(f"next_{name}" for name in _CAUSE)),
        },
    )
    _replace_dead(connection, database, written)


def withdraw(connection: Connection, database: Database, job_id: int, *, trigger: str) -> bool:
    """Close a due job that nobody works, open for `trigger`; False where it runs, is closed, or is
    open for something else by now. The caller holds the session's row."""
    closed = connection.execute(
        update(_J)
        .where(_J.id == job_id, _J.state == JobState.DUE, _J.trigger == trigger)
        .values(state=JobState.DONE, attempt=0, tries=0, **_unheld(database.now()))
    )
    return closed.rowcount == 1


def rescue_expired(connection: Connection, database: Database) -> int:
    """Put every running job whose lease has ended back to due, or to dead after three such ends;
    gives how many there were."""
    return _rescue(connection, database, true())


def fence_out(connection: Connection, database: Database, key: int, kind: JobKind) -> bool:
    """Take a running job of this kind away from its holder and put it back to due; False when
    none runs. What the holder still writes is discarded (ARCHITECTURE.md, *Jobs*)."""
    now = database.now()
    taken = connection.execute(
        update(_J)
        .where(_J.session_key == key, _J.kind == kind, sql(RUNNING_JOB))
        .values(
            state=JobState.DUE,
            fence=_J.fence + 1,
            attempt=_J.attempt - 1,
            run_at=now,
            reason="fenced out by a stronger trigger",
            **{**_unheld(now), **_next(_stronger_came())},
        )
    )
    return taken.rowcount > 0


def ring_due(
    connection: Connection, database: Database, *, again_after_ms: int, limit: int
) -> list[DueJob]:
    """Jobs that are due, unclaimed, and were not rung within `again_after_ms`; notes the ring.

    Strongest first, then those that wait longest.
    """
    now = database.now()
    # A common table expression is run once; a subquery might be run anew for each row.
    chosen = (
        select(_J.id)
        .where(*_unrung(now, again_after_ms))
        .order_by(_J.strength.desc(), _J.run_at)
        .limit(limit)
        .with_for_update(skip_locked=True)
        .cte("chosen")
    )
    rows = connection.execute(
        update(_J)
        .where(_J.id.in_(select(chosen.c.id)))
        .values(rung_at=now)
        .returning(*_DUE, _J.strength, _J.run_at)
    ).all()
    return [_due(row) for row in sorted(rows, key=lambda row: (-row.strength, row.run_at, row.id))]


def any_due(connection: Connection, database: Database, *, again_after_ms: int) -> bool:
    """Whether `ring_due` or `rescue_expired` would find something. Takes no lock."""
    now = database.now()
    due = select(_J.id).where(*_unrung(now, again_after_ms))
    expired = select(_J.id).where(sql(RUNNING_JOB), _J.lease_until <= now)
    return any(connection.execute(query.limit(1)).first() for query in (due, expired))


def due_in_session(connection: Connection, database: Database, key: int) -> list[DueJob]:
    """The session's jobs that can be claimed now: what a finished job rings for."""
    rows = connection.execute(
        select(*_DUE)
        # Both, since SQLite does not see that a due job is an open one, which has the index.
        .where(
            _J.session_key == key,
            sql(OPEN_JOB),
            sql(DUE_JOB),
            _KNOWN_KIND,
            _J.run_at <= database.now(),
        )
        .order_by(_J.strength.desc(), _J.run_at)
    )
    return [_due(row) for row in rows]


def _unrung(now: ColumnElement[int], again_after_ms: int) -> tuple[Any, ...]:
    rung_long_ago = or_(_J.rung_at.is_(None), _J.rung_at <= now - again_after_ms)
    return sql(DUE_JOB), _KNOWN_KIND, _J.run_at <= now, rung_long_ago


def _due(row: Any) -> DueJob:
    return DueJob(row.id, JobKind(row.kind), row.queue, row.trigger, row.session_id)


def _rescue(connection: Connection, database: Database, which: Any) -> int:
    now = database.now()
    crashed_often = _J.attempt >= MAX_CRASHES
    ended = connection.execute(
        update(_J)
        .where(which, sql(RUNNING_JOB), _J.lease_until <= now)
        .values(
            state=case((crashed_often, JobState.DEAD), else_=JobState.DUE),
            reason="the worker went silent",
            failed_first_at=func.coalesce(_J.failed_first_at, now),
            failed_last_at=now,
            run_at=now,
            **{
                **_unheld(now),
                **_next(~crashed_often & _stronger_came()),
                "again": case((crashed_often, _J.again), else_=0),
            },
        )
        .returning(*_J.__table__.columns)
    )
    rows = ended.mappings().all()
    for row in rows:
        if row["state"] == JobState.DEAD:
            _replace_dead(connection, database, row)
    return len(rows)


def _replace_dead(connection: Connection, database: Database, dead: RowMapping) -> None:
    """Make a new job for work that arrived while the dead one ran, lest it be lost."""
    if dead["again"]:
        make_due(
            connection,
            database,
            dead["session_key"],
            kind=JobKind(dead["kind"]),
            **_cause_of_next(dead),
        )


def _cause_of_next(job: RowMapping) -> dict[str, Any]:
    """What the trigger that came while the job ran asks for; an older version left none."""
    prefix = "next_" if job["next_trigger"] is not None else ""
    cause = {name: job[f"{prefix}{name}"] for name in _CAUSE}
    return {**cause, "options": json.loads(cause["options"] or "{}")}


def _stronger_came() -> ColumnElement[bool]:
    return func.coalesce(_J.next_strength, -1) > _J.strength


def _next(taken: ColumnElement[bool]) -> dict[str, Any]:
    """Let the trigger that came meanwhile take the job over where `taken`, and forget it."""
    known = taken & _J.next_trigger.is_not(None)
    columns = _J.__table__.c
    return {
        **{name: case((known, columns[f"next_{name}"]), else_=columns[name]) for name in _CAUSE},
        **{f"next_{name}": None for name in _CAUSE},
    }


def _untouched(*names: str) -> dict[str, Any]:
    return {name: _J.__table__.c[name] for name in names}


def _unheld(now: ColumnElement[int]) -> dict[str, Any]:
    return {
        "holder": None,
        "lease_until": None,
        "deadline_at": None,
        "rung_at": None,
        "again": 0,
        "updated_at": now,
    }


def _mine(claim: Claim) -> tuple[Any, ...]:
    return (_J.id == claim.job_id, _J.fence == claim.fence, _J.state == JobState.RUNNING)


def _write(connection: Connection, claim: Claim, values: dict[str, Any]) -> RowMapping:
    written = (
        connection.execute(
            update(_JOBS).where(*_mine(claim)).values(**values).returning(*_JOBS.columns)
        )
        .mappings()
        .first()
    )
    if written is None:
        raise FenceLost(claim.job_id, claim.fence)
    return written
