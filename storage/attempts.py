"""One record per attempt at a pass: figures for operators, never text."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import Connection, bindparam, func, insert, select

from storage.engine import Database, clock
from storage.models import Attempt, table_of
from storage.outcomes import Outcome


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    """The figures of one attempt at a pass. `outcome` is an `Outcome` or a newer version's word.
    Durations are in milliseconds; token counts of the model are None where it was not asked or did
    not report them."""

    job_id: int | None
    kind: str
    trigger: str
    outcome: Outcome | str
    messages_before: int
    messages_after: int
    tokens_before: int
    tokens_after: int
    cursor: int
    passes: int
    tokens_saved: int
    threshold_tokens: int
    absorbed_tokens: int = 0
    summary_tokens: int = 0
    summary_id: int | None = None
    error_class: str | None = None
    model: str = ""
    requests: int = 0
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_ms: int = 0
    model_ms: int = 0

    @property
    def occupancy(self) -> float:
        """Live tokens after the try as a share of the threshold."""
        return self.tokens_after / self.threshold_tokens if self.threshold_tokens else 0.0


_LOOKED_AT = 10_000

_FIELDS = tuple(AttemptRecord.__dataclass_fields__)
_COLUMNS = tuple(getattr(Attempt, name) for name in _FIELDS)


def record(connection: Connection, database: Database, key: int, attempt: AttemptRecord) -> None:
    """Store an attempt."""
    figures = {name: getattr(attempt, name) for name in _FIELDS}
    connection.execute(
        _record(database.dialect, database.offset_ms), {"session_key": key, **figures}
    )


@cache
def _record(dialect: str, offset_ms: int) -> Any:
    """Build the statement of `record` once: every pass runs it."""
    given: dict[str, Any] = {name: bindparam(name) for name in ("session_key", *_FIELDS)}
    return insert(table_of(Attempt)).values(**given, created_at=clock(dialect, offset_ms)).inline()


def newest(connection: Connection, key: int, *, limit: int) -> list[AttemptRecord]:
    """Return the last attempts of a session, oldest first."""
    rows = connection.execute(
        select(*_COLUMNS).where(Attempt.session_key == key).order_by(Attempt.id.desc()).limit(limit)
    )
    return [AttemptRecord(*row) for row in rows][::-1]


def last_id(connection: Connection, key: int) -> int:
    """Return the number of a session's last attempt, 0 when there is none."""
    found = connection.execute(
        select(func.max(Attempt.id)).where(Attempt.session_key == key)
    ).scalar_one()
    return found or 0


def of_job(connection: Connection, key: int, job_id: int, *, after: int) -> list[AttemptRecord]:
    """Return the attempts of one of a session's jobs whose number is above `after`, oldest first.

    Reads the session's attempts from there on, not all that it ever had.
    """
    rows = connection.execute(
        select(*_COLUMNS)
        .where(Attempt.session_key == key, Attempt.id > after, Attempt.job_id == job_id)
        .order_by(Attempt.id)
    )
    return [AttemptRecord(*row) for row in rows]


def answer_times(connection: Connection, model: str, *, limit: int) -> list[int]:
    """Return the milliseconds per request of a model's last answered attempts, newest first.

    Reads the last ten thousand attempts of all sessions.
    """
    newest = connection.execute(select(func.max(Attempt.id))).scalar_one() or 0
    rows = connection.execute(
        select(Attempt.model_ms, Attempt.requests)
        .where(
            Attempt.id > newest - _LOOKED_AT,
            Attempt.model == model,
            Attempt.requests > 0,
            Attempt.model_ms > 0,
        )
        .order_by(Attempt.id.desc())
        .limit(limit)
    )
    return [model_ms // requests for model_ms, requests in rows]
