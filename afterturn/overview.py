"""A session as an operator sees it: what it is, how full it is, what was and will be done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, select

from afterturn.lookup import find_session
from storage import attempts, cursors, guards, job_records, summaries
from storage.attempts import AttemptRecord
from storage.cursors import CursorName
from storage.engine import Database
from storage.guards import GuardName, GuardRecord
from storage.job_records import JobRecord
from storage.models import Summary
from storage.sessions import SessionRecord
from storage.summaries import SummaryKind, SummaryRecord, SummaryStatus
from workers.compression_settings import CompressionSettings
from workers.limits import session_threshold
from workers.threshold import NoUsableWindowError, Threshold

_FAILURES = (GuardName.MICRO_FAILURES, GuardName.ENDPOINT_FAILURES)
ROLLING = frozenset({SummaryKind.MICRO, SummaryKind.DEFRAG})


@dataclass(frozen=True, slots=True)
class Fullness:
    """How full a session is. `threshold` is None where its window leaves no room; then
    `why` says so instead of how the threshold came about."""

    threshold: Threshold | None
    why: str
    occupancy: float | None

    @classmethod
    def of(cls, session: SessionRecord, settings: CompressionSettings) -> Fullness:
        """Return the fullness of a session under these settings."""
        try:
            threshold = session_threshold(session, settings)
        except NoUsableWindowError as error:
            return cls(None, str(error), None)
        return cls(threshold, threshold.reason, session.live_tokens / threshold.tokens)


@dataclass(frozen=True, slots=True)
class Overview:
    """All that `sessions show` prints. `cursor` is the position of the first message that
    micro-compaction has not absorbed; `batch_summary` is what the marker of a batch pass shows, a
    placeholder or a reset too; attempts are the newest ones, oldest first; `undone` are the
    summaries among theirs that were undone. `failures` counts the failed attempts in a row,
    `now` is the database's time in milliseconds since 1970."""

    session: SessionRecord
    fullness: Fullness
    cursor: int
    batch_summary: SummaryRecord | None
    rolling_summary: SummaryRecord | None
    open_jobs: tuple[JobRecord, ...]
    attempts: tuple[AttemptRecord, ...]
    undone: frozenset[int]
    failures: int
    guards: Mapping[GuardName, GuardRecord]
    now: int


def read_overview(
    database: Database,
    settings: CompressionSettings,
    *,
    owner: str,
    session_id: str,
    newest_attempts: int,
) -> Overview:
    """Read a session in one snapshot. Raises `SessionNotFound`."""
    with database.read() as connection:
        session = find_session(connection, owner=owner, session_id=session_id)
        key = session.key
        newest = attempts.newest(connection, key, limit=newest_attempts)
        held = guards.read_all(connection, database, key)
        live = summaries.all_live(connection, key)
        rolling = [one for one in live if one.kind in ROLLING]
        batch = [one for one in live if one.kind not in ROLLING]
        return Overview(
            session=session,
            fullness=Fullness.of(session, settings),
            cursor=cursors.read(connection, key, CursorName.MICRO),
            batch_summary=batch[-1] if batch else None,
            rolling_summary=rolling[-1] if rolling else None,
            open_jobs=tuple(job_records.open_jobs(connection, key)),
            attempts=tuple(newest),
            undone=_undone(connection, newest),
            failures=sum(held[name].count for name in _FAILURES if name in held),
            guards=held,
            now=connection.execute(select(database.now())).scalar_one(),
        )


def _undone(connection: Connection, attempts: Sequence[AttemptRecord]) -> frozenset[int]:
    made = [attempt.summary_id for attempt in attempts if attempt.summary_id is not None]
    undone = select(Summary.id).where(Summary.id.in_(made), Summary.status == SummaryStatus.UNDONE)
    return frozenset(connection.execute(undone).scalars())
