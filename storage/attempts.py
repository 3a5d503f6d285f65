"""One record per try of a pass: figures for operators, never text."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from sqlalchemy import Connection, insert, select

from storage.engine import Database
from storage.models import Attempt


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    """What a try did (ENGINE.md §7, telemetry). Durations in milliseconds; token counts of the
    model are None where it was not asked or did not tell."""

    job_id: int | None
    kind: str
    trigger: str
    outcome: str
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


_FIELDS = tuple(AttemptRecord.__dataclass_fields__)


def record(connection: Connection, database: Database, key: int, attempt: AttemptRecord) -> None:
    """Store what a try did."""
    connection.execute(
        insert(Attempt).values(session_key=key, created_at=database.now(), **asdict(attempt))
    )


def newest(connection: Connection, key: int, *, limit: int) -> list[AttemptRecord]:
    """The last tries of a session, oldest first."""
    columns = [getattr(Attempt, name) for name in _FIELDS]
    rows = connection.execute(
        select(*columns).where(Attempt.session_key == key).order_by(Attempt.id.desc()).limit(limit)
    )
    return [AttemptRecord(*row) for row in rows][::-1]
