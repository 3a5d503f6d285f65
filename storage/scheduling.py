"""Ticks of a schedule, each taken once, however many beats there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, delete, exists, or_, select, tuple_, update
from sqlalchemy import text as sql

from storage.engine import Database, insert_into
from storage.jobs import JobKind, JobState
from storage.jobs.dead_jobs import DROPPED
from storage.models import (
    COOLDOWN_GUARD,
    FAILED_JOB,
    IDLE_UNSEEN,
    LIVE_PLACEHOLDER,
    OPEN_JOB,
    UNDECIDED,
    Guard,
    Job,
    ScheduleSlot,
    Session,
    Summary,
)


def take(connection: Connection, database: Database, schedule: str, *, every_ms: int) -> bool:
    """Take the present tick of a schedule that ticks every `every_ms`; False when it is taken.

    The n-th tick since 1970, by the database's clock, is a row of its own. Ticks in the future were
    taken by a clock that has been set back since: they are deleted, or the schedule would stand
    still until they are over.
    """
    now = database.now()
    connection.execute(
        delete(ScheduleSlot).where(
            ScheduleSlot.schedule == schedule, ScheduleSlot.slot > database.moment() // every_ms
        )
    )
    taken = connection.execute(
        insert_into(connection, ScheduleSlot)
        .values(schedule=schedule, slot=now // every_ms, taken_at=now)
        .on_conflict_do_nothing()
        .returning(ScheduleSlot.slot)
    )
    return taken.first() is not None


@dataclass(frozen=True, slots=True)
class Place:
    """The end of a page, after which the next one begins: a time and a session's key."""

    at: int = -1
    key: int = -1


def undecided(connection: Connection, *, after: Place, limit: int) -> list[Place]:
    """Return sessions with a closed turn that is not decided yet and without a turn job.

    Leaves out those whose turn job was given up after that turn: it would be given up again.
    """
    found = connection.execute(
        select(Session.key)
        .where(
            sql(UNDECIDED),
            Session.key > after.key,
            *_left_alone(JobKind.TURN, Session.key, since=Session.active_at),
        )
        .order_by(Session.key)
        .limit(limit)
    )
    return [Place(key=key) for key in found.scalars()]


def unreplaced_placeholders(
    connection: Connection, database: Database, *, rest_ms: int, after: Place, limit: int
) -> list[Place]:
    """Return sessions that show a placeholder and have no batch job, which would replace it.

    Leaves out those whose batch job was given up after the placeholder was made, less than
    `rest_ms` ago.
    """
    shown = Summary.created_at, Summary.session_key
    found = connection.execute(
        select(*shown)
        .where(
            sql(LIVE_PLACEHOLDER),
            tuple_(*shown) > (after.at, after.key),
            *_left_alone(
                JobKind.BATCH,
                Summary.session_key,
                since=Summary.created_at,
                rested=database.moment() - rest_ms,
            ),
        )
        .order_by(*shown)
        .limit(limit)
    )
    return [Place(at, key) for at, key in found]


def rested(connection: Connection, database: Database, *, after: Place, limit: int) -> list[Place]:
    """Return sessions whose cooldown has ended, whose suppressed work was not checked since, and
    that have no turn job. Leaves out those whose turn job was given up since then."""
    ended = Guard.until_at, Guard.session_key
    found = connection.execute(
        select(*ended)
        .where(
            sql(COOLDOWN_GUARD),
            Guard.until_at <= database.moment(),
            tuple_(*ended) > (after.at, after.key),
            *_left_alone(JobKind.TURN, Guard.session_key, since=Guard.until_at),
        )
        .order_by(*ended)
        .limit(limit)
    )
    return [Place(at or 0, key) for at, key in found]


def idle(
    connection: Connection, database: Database, *, idle_ms: int, after: Place, limit: int
) -> list[Place]:
    """Return sessions idle for `idle_ms` that no scan has seen since they were active, longest idle
    first. Ended and archived ones are left out."""
    quiet = Session.idle_since, Session.key
    found = connection.execute(
        select(*quiet)
        .where(
            sql(IDLE_UNSEEN),
            Session.idle_since <= database.moment() - idle_ms,
            tuple_(*quiet) > (after.at, after.key),
        )
        .order_by(*quiet)
        .limit(limit)
    )
    return [Place(at or 0, key) for at, key in found]


def note_idle_look(connection: Connection, seen: Sequence[Place]) -> None:
    """Note that a scan has seen these idle sessions: each is found again only after it was active
    again."""
    connection.execute(
        update(Session)
        .where(
            Session.key.in_([place.key for place in seen]),
            Session.idle_since <= max((place.at for place in seen), default=0),
        )
        .values(idle_since=None)
    )


def _left_alone(
    kind: JobKind, key: Any, *, since: Any, rested: ColumnElement[int] | None = None
) -> tuple[ColumnElement[bool], ...]:
    """Return conditions: no open job of the kind, and none that was given up since `since`.

    One that died up to the time `rested` does not count; one that an operator has dropped does.
    """
    of_kind = (Job.session_key == key, Job.kind == kind)
    is_open = exists().where(*of_kind, sql(OPEN_JOB))
    died, dropped = Job.state == JobState.DEAD, Job.reason.startswith(DROPPED)
    given_up = exists().where(
        *of_kind,
        sql(FAILED_JOB),
        Job.failed_last_at >= since,
        or_(died if rested is None else died & (Job.failed_last_at > rested), dropped),
    )
    return ~is_open, ~given_up
