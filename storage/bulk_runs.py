"""Runs of bulk re-compaction: which sessions, in which order, and how far each is.

A session of a run changes its state only in a transaction that holds the run's row, and it is
marked as asked in the transaction that enqueues its job. So a run may be interrupted anywhere.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Integer,
    case,
    func,
    insert,
    literal,
    or_,
    select,
    update,
)
from sqlalchemy import text as sql

from storage.engine import Database
from storage.jobs import JobState
from storage.models import (
    ASKED_IN_BULK,
    RUNNING_BULK,
    WAITING_IN_BULK,
    BulkRun,
    BulkSession,
    Job,
    Session,
    table_of,
)

_R, _B, _S = BulkRun, BulkSession, Session
# Literal, and with the table's name, since jobs have a state too.
_WAITING = sql(f"bulk_sessions.{WAITING_IN_BULK}")
_ASKED = sql(f"bulk_sessions.{ASKED_IN_BULK}")


class RunState(StrEnum):
    """The state of a run. Running: jobs are enqueued for its sessions. Stopped: none is, until the
    run is resumed. Done: every session is settled."""

    RUNNING = "running"
    STOPPED = "stopped"
    DONE = "done"


class Progress(StrEnum):
    """The state of a session in a run. Asked: its job is open. Settled: nothing is left to do."""

    WAITING = "waiting"
    ASKED = "asked"
    SETTLED = "settled"


@dataclass(frozen=True, slots=True)
class Filters:
    """The sessions that a run covers: all filters must match. `title` is a part of the title in
    either case, `older_ms` the least idle time, `above_tokens` the least live tokens."""

    sources: Sequence[str] = ()
    older_ms: int | None = None
    above_tokens: int = 0
    title: str | None = None

    def dump(self) -> str:
        return json.dumps({**asdict(self), "sources": list(self.sources)})

    @classmethod
    def load(cls, text: str) -> Filters:
        known = {name: value for name, value in json.loads(text).items() if name in _FILTERS}
        return cls(**{**known, "sources": tuple(known.get("sources", ()))})


_FILTERS = tuple(Filters.__dataclass_fields__)


@dataclass(frozen=True, slots=True)
class Run:
    """A run. `owner` is None where it covers all owners. `pace_ms` is the least time between the
    starts of two sessions, `at_once` the most that are under way; times are in milliseconds since
    1970 (UTC)."""

    id: int
    owner: str | None
    actor: str
    filters: Filters
    state: RunState
    at_once: int
    pace_ms: int
    next_at: int
    sessions: int
    created_at: int
    updated_at: int
    ended_at: int | None


@dataclass(frozen=True, slots=True)
class Item:
    """A session of a run whose job is open. `after_attempt` is its last attempt before the run."""

    run_id: int
    session_key: int
    job_id: int
    after_attempt: int


@dataclass(frozen=True, slots=True)
class SessionResult:
    """The result of a session: the last outcome of its job, and the sums over its attempts."""

    outcome: str
    error_class: str | None = None
    tokens_before: int | None = None
    tokens_after: int | None = None
    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Tally:
    """The progress of a run: sessions by state, settled ones by outcome, and the sums over them."""

    waiting: int = 0
    asked: int = 0
    settled: int = 0
    outcomes: Mapping[str, int] = field(default_factory=dict)
    tokens_before: int = 0
    tokens_after: int = 0
    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0

    @property
    def tokens_saved(self) -> int:
        return self.tokens_before - self.tokens_after


_COLUMNS = (
    _R.id,
    _R.owner,
    _R.actor,
    _R.filters,
    _R.state,
    _R.at_once,
    _R.pace_ms,
    _R.next_at,
    _R.sessions,
    _R.created_at,
    _R.updated_at,
    _R.ended_at,
)


def chosen(
    connection: Connection, database: Database, filters: Filters, *, owner: str | None
) -> list[tuple[int, int]]:
    """Return key and live tokens of every session that the filters match, the longest idle
    first."""
    query = select(_S.key, _S.live_tokens).where(*_match(database, filters, owner))
    return [(key, tokens) for key, tokens in connection.execute(query.order_by(*_ORDER))]


def create(
    connection: Connection,
    database: Database,
    filters: Filters,
    *,
    owner: str | None,
    actor: str,
    at_once: int,
    pace_ms: int,
) -> Run:
    """Start a run over the sessions that match now. The driver's IntegrityError means that another
    one is running."""
    now = database.now()
    run_id = connection.execute(
        insert(_R)
        .values(
            owner=owner,
            actor=actor,
            filters=filters.dump(),
            state=RunState.RUNNING,
            at_once=at_once,
            pace_ms=pace_ms,
            sessions=0,
            created_at=now,
            updated_at=now,
        )
        .returning(_R.id)
    ).scalar_one()
    place = func.row_number().over(order_by=list(_ORDER))
    source = select(literal(run_id), _S.key, place, literal(Progress.WAITING.value)).where(
        *_match(database, filters, owner)
    )
    connection.execute(
        insert(table_of(_B)).from_select(["run_id", "session_key", "place", "state"], source)
    )
    found = select(func.count()).where(_B.run_id == run_id).scalar_subquery()
    connection.execute(update(_R).where(_R.id == run_id).values(sessions=found))
    return fetch(connection, run_id)


def fetch(connection: Connection, run_id: int) -> Run:
    """Return the run with this id."""
    return _run(connection.execute(select(*_COLUMNS).where(_R.id == run_id)).one())


def find(connection: Connection, run_id: int) -> Run | None:
    """Return the run with this id, None where there is none."""
    found = connection.execute(select(*_COLUMNS).where(_R.id == run_id)).first()
    return None if found is None else _run(found)


def newest(connection: Connection, *, limit: int) -> list[Run]:
    """Return the last runs, newest first."""
    found = connection.execute(select(*_COLUMNS).order_by(_R.id.desc()).limit(limit))
    return [_run(row) for row in found]


def running(connection: Connection) -> Run | None:
    """Return the running run; None where there is none."""
    found = connection.execute(select(*_COLUMNS).where(sql(RUNNING_BULK))).first()
    return None if found is None else _run(found)


def lock(connection: Connection, run_id: int) -> Run:
    """Lock the run's row for this transaction and return it."""
    return _run(
        connection.execute(select(*_COLUMNS).where(_R.id == run_id).with_for_update()).one()
    )


def set_state(connection: Connection, database: Database, run_id: int, state: RunState) -> None:
    """Change a run's state. The driver's IntegrityError means that another run is running."""
    now = database.now()
    ended = None if state is RunState.RUNNING else now
    connection.execute(
        update(_R).where(_R.id == run_id).values(state=state, updated_at=now, ended_at=ended)
    )


def under_way(connection: Connection, run_id: int) -> int:
    """Return how many sessions of a run have an open job."""
    return connection.execute(select(func.count()).where(_B.run_id == run_id, _ASKED)).scalar_one()


def next_waiting(connection: Connection, run_id: int, *, limit: int) -> list[int]:
    """Return the keys of the next sessions to start."""
    return list(
        connection.execute(
            select(_B.session_key)
            .where(_B.run_id == run_id, _WAITING)
            .order_by(_B.place)
            .limit(limit)
        ).scalars()
    )


def left_ms(connection: Connection, database: Database, run: Run) -> int:
    """Return how long it is until the run's pace lets the next session begin."""
    now: int = connection.execute(select(database.now())).scalar_one()
    return max(0, run.next_at - now)


def note_asked(
    connection: Connection, database: Database, item: Item, *, burst_ms: int, pace_ms: int
) -> bool:
    """Mark a waiting session as asked; False where it is not waiting any more. The caller holds
    the run's row."""
    asked = connection.execute(
        update(_B)
        .where(
            _B.run_id == item.run_id,
            _B.session_key == item.session_key,
            _B.state == Progress.WAITING,
        )
        .values(state=Progress.ASKED, job_id=item.job_id, after_attempt=item.after_attempt)
    )
    if asked.rowcount != 1:
        return False
    earliest = database.now() - burst_ms
    begun = case((_R.next_at < earliest, earliest), else_=_R.next_at)
    connection.execute(
        update(_R)
        .where(_R.id == item.run_id)
        .values(next_at=begun + pace_ms, updated_at=database.now())
    )
    return True


def finished(connection: Connection, run_id: int, *, replaces: str, trigger: str) -> list[Item]:
    """Return asked sessions whose job has nothing more to do for the run: it is closed, or open
    only to replace a placeholder (trigger `replaces`)."""
    replaces_only = (Job.trigger == replaces) & (func.coalesce(Job.next_trigger, "") != trigger)
    over = or_(Job.id.is_(None), Job.state.in_([JobState.DONE, JobState.DEAD]), replaces_only)
    return _items(connection, run_id, over)


def open_items(connection: Connection, run_id: int) -> list[Item]:
    """Return the sessions that are asked and not settled."""
    return _items(connection, run_id, literal(1) == literal(1))


def settle(connection: Connection, database: Database, item: Item, result: SessionResult) -> bool:
    """Settle a session with its result; False where it was settled already. The caller holds the
    run's row."""
    settled = connection.execute(
        update(_B)
        .where(
            _B.run_id == item.run_id,
            _B.session_key == item.session_key,
            _B.state == Progress.ASKED,
            _B.job_id == item.job_id,
        )
        .values(state=Progress.SETTLED, settled_at=database.now(), **asdict(result))
    )
    return settled.rowcount == 1


def put_back(connection: Connection, item: Item) -> bool:
    """Let an asked session wait again because its job was withdrawn. The caller holds the run's
    row."""
    back = connection.execute(
        update(_B)
        .where(
            _B.run_id == item.run_id,
            _B.session_key == item.session_key,
            _B.state == Progress.ASKED,
            _B.job_id == item.job_id,
        )
        .values(state=Progress.WAITING, job_id=None, after_attempt=0)
    )
    return back.rowcount == 1


def ask_again(connection: Connection, run_id: int, outcomes: Collection[str]) -> int:
    """Let settled sessions of these outcomes wait again and return how many. The caller holds the
    run's row."""
    return connection.execute(
        update(_B)
        .where(
            _B.run_id == run_id,
            _B.state == Progress.SETTLED,
            _B.outcome.in_(list(outcomes)),
        )
        .values(
            state=Progress.WAITING,
            job_id=None,
            after_attempt=0,
            outcome=None,
            error_class=None,
            settled_at=None,
        )
    ).rowcount


def tally(connection: Connection, run_id: int) -> Tally:
    """Return the progress of a run."""
    found = connection.execute(
        select(
            _B.state,
            _B.outcome,
            func.count().label("sessions"),
            *(
                func.sum(func.coalesce(column, 0)).cast(Integer).label(column.name)
                for column in (
                    _B.tokens_before,
                    _B.tokens_after,
                    _B.requests,
                    _B.prompt_tokens,
                    _B.completion_tokens,
                )
            ),
        )
        .where(_B.run_id == run_id)
        .group_by(_B.state, _B.outcome)
    ).all()
    by_state = dict.fromkeys(Progress, 0)
    outcomes: dict[str, int] = {}
    for row in found:
        by_state[Progress(row.state)] += row.sessions
        if row.outcome is not None:
            outcomes[row.outcome] = outcomes.get(row.outcome, 0) + row.sessions
    return Tally(
        waiting=by_state[Progress.WAITING],
        asked=by_state[Progress.ASKED],
        settled=by_state[Progress.SETTLED],
        outcomes=dict(sorted(outcomes.items())),
        tokens_before=sum(row.tokens_before for row in found),
        tokens_after=sum(row.tokens_after for row in found),
        requests=sum(row.requests for row in found),
        prompt_tokens=sum(row.prompt_tokens for row in found),
        completion_tokens=sum(row.completion_tokens for row in found),
    )


def unsuccessful(
    connection: Connection, run_id: int, *, good: Collection[str], limit: int
) -> list[tuple[str, str, str, str | None]]:
    """Return owner, id, outcome and error class of settled sessions with any other outcome."""
    found = connection.execute(
        select(_S.owner, _S.id, _B.outcome, _B.error_class)
        .join(_S, _S.key == _B.session_key)
        .where(_B.run_id == run_id, _B.state == Progress.SETTLED, _B.outcome.not_in(list(good)))
        .order_by(_B.place)
        .limit(limit)
    )
    return [(row[0], row[1], row[2] or "", row[3]) for row in found]


_ORDER = (_S.active_at, _S.key)


def _match(database: Database, filters: Filters, owner: str | None) -> list[ColumnElement[bool]]:
    # Codex compacts the threads that it owns itself.
    terms = [_S.live_messages > 0, func.coalesce(_S.managed_by, "") != "codex"]
    if owner is not None:
        terms.append(_S.owner == owner)
    if filters.sources:
        terms.append(_S.source.in_(list(filters.sources)))
    if filters.older_ms is not None:
        terms.append(_S.active_at <= database.moment() - filters.older_ms)
    if filters.above_tokens:
        terms.append(_S.live_tokens >= filters.above_tokens)
    if filters.title is not None:
        title = func.lower(_S.title)
        terms.append(title.contains(filters.title.lower(), autoescape=True))
    return terms


def _items(connection: Connection, run_id: int, over: ColumnElement[bool]) -> list[Item]:
    found = connection.execute(
        select(_B.run_id, _B.session_key, _B.job_id, _B.after_attempt)
        .outerjoin(Job, Job.id == _B.job_id)
        .where(_B.run_id == run_id, _ASKED, over)
        .order_by(_B.place)
    )
    return [Item(run, key, job or 0, after) for run, key, job, after in found]


def _run(row: Any) -> Run:
    values = {name: getattr(row, name) for name in Run.__dataclass_fields__}
    values |= {"filters": Filters.load(row.filters), "state": RunState(row.state)}
    return Run(**values)
