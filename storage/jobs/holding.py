"""Writes of a job's lease owner, valid as long as it holds the job."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    Connection,
    RowMapping,
    Text,
    bindparam,
    case,
    cast,
    func,
    select,
    update,
)

from storage.engine import Database, clock
from storage.errors import FenceLost
from storage.jobs.enqueueing import replace_dead
from storage.jobs.terms import (
    CAUSE,
    Claim,
    Ended,
    JobState,
    next_cause,
    priority_raised,
    without_lease,
)
from storage.models import Job, table_of
from storage.types import among

_J = Job
_JOBS = table_of(Job)
_MINE = (
    _JOBS.c.id == bindparam("job_id"),
    _JOBS.c.fence == bindparam("held_by"),
    _JOBS.c.state == JobState.RUNNING,
)
_ATTEMPTS = {Ended.CRASHED: _J.attempt, Ended.FORESEEN: 0, Ended.HANDED_BACK: _J.attempt - 1}
_HELD = select(_JOBS.c.id).where(*_MINE).with_for_update()


def renew(connection: Connection, database: Database, claim: Claim, *, lease_ms: int) -> bool:
    """Prolong the lease up to the deadline; False when the job is no longer this lease owner's.

    A lease that has ended counts as lost even before another worker takes the job: its owner was
    stopped for so long that it must not be trusted.
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
    """Make sure that the job is this lease owner's, for the rest of the transaction.

    Raises `FenceLost`.
    """
    held = connection.execute(_HELD, {"job_id": claim.job_id, "held_by": claim.fence})
    if held.first() is None:
        raise FenceLost(claim.job_id, claim.fence)


def proceed(
    connection: Connection, database: Database, claim: Claim, *, lease_ms: int, deadline_ms: int
) -> None:
    """Record that a pass was committed: resets attempts, tries and the deadline.

    Raises `FenceLost`.
    """
    given = {
        "job_id": claim.job_id,
        "held_by": claim.fence,
        "lease": min(lease_ms, deadline_ms),
        "deadline": deadline_ms,
    }
    if not connection.execute(_proceed(database.dialect, database.offset_ms), given).rowcount:
        raise FenceLost(claim.job_id, claim.fence)


@cache
def _proceed(dialect: str, offset_ms: int) -> Any:
    """Build the statement of `proceed` once: every pass ends with it."""
    now = clock(dialect, offset_ms)
    return (
        update(_JOBS)
        .where(*_MINE)
        .values(
            attempt=1,
            tries=0,
            lease_until=now + bindparam("lease", type_=BigInteger),
            deadline_at=now + bindparam("deadline", type_=BigInteger),
            updated_at=now,
        )
    )


def extend(
    connection: Connection, database: Database, claim: Claim, *, lease_ms: int, deadline_ms: int
) -> None:
    """Restart the deadline for the next part of a pass. Raises `FenceLost`."""
    now = database.now()
    _write(
        connection,
        claim,
        {"lease_until": now + min(lease_ms, deadline_ms), "deadline_at": now + deadline_ms},
    )


def note_tries(connection: Connection, claim: Claim, tries: int) -> None:
    """Store how many requests for a summary have failed, so that they still count after a crash.
    Raises `FenceLost`.
    """
    _write(connection, claim, {"tries": tries})


def finish(connection: Connection, database: Database, claim: Claim) -> bool:
    """Close the job as done, or make it due again if work arrived meanwhile; True if it is due.

    Raises `FenceLost`.
    """
    state = finish_all(connection, database, [claim]).get(claim.job_id)
    if state is None:
        raise FenceLost(claim.job_id, claim.fence)
    return state is JobState.DUE


def finish_all(
    connection: Connection, database: Database, claims: Sequence[Claim]
) -> dict[int, JobState]:
    """Close jobs as `finish` does; return what each is now by its id, without those that are no
    longer their lease owner's."""
    held = {"ids": [claim.job_id for claim in claims], "runs": [claim.run for claim in claims]}
    rows = connection.execute(_finish(database.dialect, database.offset_ms), held)
    return {row.id: JobState(row.state) for row in rows}


@cache
def _finish(dialect: str, offset_ms: int) -> Any:
    """Build the statement of `finish` once: every job ends with it."""
    now = clock(dialect, offset_ms)
    run = cast(_JOBS.c.id, Text).concat(".").concat(cast(_JOBS.c.fence, Text))
    return (
        update(_JOBS)
        .where(
            among(_JOBS.c.id, "ids", dialect),
            among(run, "runs", dialect, Text),
            _JOBS.c.state == JobState.RUNNING,
        )
        .values(
            {
                "state": case((_JOBS.c.again == 1, JobState.DUE), else_=JobState.DONE),
                "attempt": 0,
                "tries": 0,
                "run_at": now,
                **without_lease(now),
                **next_cause(_JOBS.c.again == 1),
            }
        )
        .returning(_JOBS.c.id, _JOBS.c.state)
    )


def release(
    connection: Connection,
    database: Database,
    claim: Claim,
    *,
    delay_ms: int,
    reason: str | None,
    ended: Ended,
    tries: int | None = None,
) -> None:
    """Put the job back to due, to be run `delay_ms` from now. The fence stays.

    A trigger of higher priority that arrived meanwhile takes the job over, and does not wait.
    `tries` counts the failed requests for a summary so far, None leaves it. Raises `FenceLost`.
    """
    outranked = priority_raised()
    now = database.now()
    _write(
        connection,
        claim,
        {
            "state": JobState.DUE,
            "attempt": _ATTEMPTS[ended],
            "tries": case((outranked, 0), else_=_J.tries if tries is None else tries),
            "run_at": case((outranked, now), else_=now + delay_ms),
            "reason": reason,
            **without_lease(now),
            **next_cause(outranked),
        },
    )


def go_on_as(
    connection: Connection,
    database: Database,
    claim: Claim,
    *,
    queue: str,
    trigger: str,
    priority: int,
    delay_ms: int,
) -> None:
    """Put the job back to due for another cause, to be run `delay_ms` from now, or at once for a
    trigger that arrived meanwhile. Raises `FenceLost`."""
    now = database.now()
    asked = _J.again == 1
    follow_up = {"queue": queue, "trigger": trigger, "priority": priority, "options": None}
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
            **without_lease(now),
            **{f"next_{name}": None for name in CAUSE},
            **cause,
        },
    )


def dead_letter(
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
            **without_lease(now),
            **_untouched("again", *(f"next_{name}" for name in CAUSE)),
        },
    )
    replace_dead(connection, database, written)


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


def _untouched(*names: str) -> dict[str, Any]:
    return {name: _J.__table__.c[name] for name in names}
