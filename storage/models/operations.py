"""Tables of operations: the audit trail, bulk re-compaction, imports, search, schedules, queues."""

from __future__ import annotations

from sqlalchemy import ForeignKey, Index
from sqlalchemy import text as sql
from sqlalchemy.orm import Mapped, mapped_column

from storage.models.base import Base, BigKey

RUNNING_BULK = "state = 'running'"
"""Bulk runs that are running: at most one."""
WAITING_IN_BULK = "state = 'waiting'"
ASKED_IN_BULK = "state = 'asked'"
"""Sessions of a run whose job is open: a handful, however large the run is."""


class AuditEntry(Base):
    """An audited act. It outlives its session: it names it, without a foreign key."""

    __tablename__ = "audit"

    id: Mapped[int] = mapped_column(BigKey, primary_key=True, autoincrement=True)
    owner: Mapped[str | None]
    session: Mapped[str | None]
    actor: Mapped[str]
    action: Mapped[str]
    facts: Mapped[str] = mapped_column(server_default="{}")
    created_at: Mapped[int]

    __table_args__ = (
        Index("ix_audit_owner", "owner", "id"),
        Index("ix_audit_session", "session", "id"),
        {"sqlite_autoincrement": True},  # an id is never given twice
    )


class BulkRun(Base):
    """A re-compaction of many sessions: its filters, its pace and its state."""

    __tablename__ = "bulk_runs"

    id: Mapped[int] = mapped_column(BigKey, primary_key=True, autoincrement=True)
    owner: Mapped[str | None]
    actor: Mapped[str]
    filters: Mapped[str]
    state: Mapped[str]
    at_once: Mapped[int]
    pace_ms: Mapped[int] = mapped_column(server_default="0")
    next_at: Mapped[int] = mapped_column(server_default="0")
    sessions: Mapped[int]
    created_at: Mapped[int]
    updated_at: Mapped[int]
    ended_at: Mapped[int | None]

    __table_args__ = (
        Index(
            "uq_bulk_runs_running",
            "state",
            unique=True,
            sqlite_where=sql(RUNNING_BULK),
            postgresql_where=sql(RUNNING_BULK),
        ),
        {"sqlite_autoincrement": True},  # an id is never given twice
    )


class BulkSession(Base):
    """A session of a run: waiting, asked (its job is open), or settled with its result."""

    __tablename__ = "bulk_sessions"

    run_id: Mapped[int] = mapped_column(
        ForeignKey("bulk_runs.id", ondelete="CASCADE"), primary_key=True
    )
    session_key: Mapped[int] = mapped_column(
        ForeignKey("sessions.key", ondelete="CASCADE"), primary_key=True
    )
    place: Mapped[int]
    state: Mapped[str]
    job_id: Mapped[int | None]
    after_attempt: Mapped[int] = mapped_column(server_default="0")
    outcome: Mapped[str | None]
    error_class: Mapped[str | None]
    tokens_before: Mapped[int | None]
    tokens_after: Mapped[int | None]
    requests: Mapped[int] = mapped_column(server_default="0")
    prompt_tokens: Mapped[int] = mapped_column(server_default="0")
    completion_tokens: Mapped[int] = mapped_column(server_default="0")
    settled_at: Mapped[int | None]

    __table_args__ = (
        Index(
            "ix_bulk_sessions_waiting",
            "run_id",
            "place",
            sqlite_where=sql(WAITING_IN_BULK),
            postgresql_where=sql(WAITING_IN_BULK),
        ),
        Index(
            "ix_bulk_sessions_asked",
            "run_id",
            "place",
            sqlite_where=sql(ASKED_IN_BULK),
            postgresql_where=sql(ASKED_IN_BULK),
        ),
        Index("ix_bulk_sessions_session", "session_key"),
    )


class ImportedSession(Base):
    """How far an imported session was read at its source."""

    __tablename__ = "imported_sessions"

    session_key: Mapped[int] = mapped_column(
        ForeignKey("sessions.key", ondelete="CASCADE"), primary_key=True
    )
    origin: Mapped[str]
    rows: Mapped[int]
    last_row: Mapped[int]
    digest: Mapped[str]
    updated_at: Mapped[int]


class SearchPending(Base):
    """Rows that the search index does not have yet: a message's id, or a summary's, negative.

    Written by triggers, so also for rows that were not inserted by this package.
    """

    __tablename__ = "search_pending"

    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)


class SearchGeneration(Base):
    """A search index that exists or is being built; its own tables bear its number."""

    __tablename__ = "search_generations"

    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    standing: Mapped[str]
    rules: Mapped[str]
    upto: Mapped[int]
    done: Mapped[int]
    created_at: Mapped[int]


PAUSED_QUEUE = "paused_at IS NOT NULL"


class ScheduleSlot(Base):
    """A taken tick of a schedule: slot `n` is the n-th interval since 1970."""

    __tablename__ = "schedule_slots"

    schedule: Mapped[str] = mapped_column(primary_key=True)
    slot: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    taken_at: Mapped[int]


class QueueState(Base):
    """A queue that is or was paused, or that serves owners in rotation."""

    __tablename__ = "queue_states"

    name: Mapped[str] = mapped_column(primary_key=True)
    paused_at: Mapped[int | None]
    reason: Mapped[str] = mapped_column(server_default="")
    last_owner: Mapped[str | None]
