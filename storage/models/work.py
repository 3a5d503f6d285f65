"""Tables of work: guards, jobs, attempts, answers, signals and endpoints."""

from __future__ import annotations

from sqlalchemy import ForeignKey, Index, SmallInteger
from sqlalchemy import text as sql
from sqlalchemy.orm import Mapped, mapped_column

from storage.models.base import Base, BigKey

OPEN_JOB = "state IN ('due', 'running')"
RUNNING_JOB = "state = 'running'"
BULK_QUEUE = "recompact"
"""The queue of bulk work: only a few of its jobs are notified at a time (`jobs.notify_bulk`)."""
NOTIFIABLE_JOB = "state = 'due' AND (queue <> 'recompact' OR notified_at IS NOT NULL)"
"""Due jobs except bulk ones that were not notified yet."""
WAITING_BULK_JOB = "state = 'due' AND queue = 'recompact' AND notified_at IS NULL"
NOTIFIED_JOB = "state = 'due' AND notified_at IS NOT NULL"
"""Jobs that can be claimed now and were notified; `notified_at` is never set on one that waits."""
DEAD_JOB = "state = 'dead'"
FAILED_JOB = "failed_last_at IS NOT NULL"
COOLDOWN_GUARD = "name = 'cooldown'"


class Guard(Base):
    """A reason to suppress work of a session, by name (`storage.guards.GuardName`)."""

    __tablename__ = "guards"

    session_key: Mapped[int] = mapped_column(
        ForeignKey("sessions.key", ondelete="CASCADE"), primary_key=True
    )
    name: Mapped[str] = mapped_column(primary_key=True)
    count: Mapped[int] = mapped_column(server_default="0")
    subject: Mapped[int | None]
    until_at: Mapped[int | None]
    detail: Mapped[str | None]
    updated_at: Mapped[int]

    __table_args__ = (
        Index(
            "ix_guards_cooldown",
            "until_at",
            "session_key",
            sqlite_where=sql(COOLDOWN_GUARD),
            postgresql_where=sql(COOLDOWN_GUARD),
        ),
    )


class Job(Base):
    """One piece of open work, claimed under a lease; see docs/explanation/leases.md."""

    __tablename__ = "jobs"

    id: Mapped[int] = mapped_column(BigKey, primary_key=True, autoincrement=True)
    session_key: Mapped[int] = mapped_column(ForeignKey("sessions.key", ondelete="CASCADE"))
    owner: Mapped[str | None]
    kind: Mapped[str]
    state: Mapped[str] = mapped_column(server_default="due")
    queue: Mapped[str]
    trigger: Mapped[str]
    priority: Mapped[int] = mapped_column(SmallInteger, server_default="0")
    options: Mapped[str | None]
    run_at: Mapped[int]
    attempt: Mapped[int] = mapped_column(server_default="0")
    tries: Mapped[int] = mapped_column(server_default="0")
    fence: Mapped[int] = mapped_column(server_default="0")
    lease_owner: Mapped[str | None]
    lease_until: Mapped[int | None]
    deadline_at: Mapped[int | None]
    again: Mapped[int] = mapped_column(SmallInteger, server_default="0")
    next_queue: Mapped[str | None]
    next_trigger: Mapped[str | None]
    next_priority: Mapped[int | None] = mapped_column(SmallInteger)
    next_options: Mapped[str | None]
    notified_at: Mapped[int | None]
    correlation: Mapped[str | None]
    reason: Mapped[str | None]
    trace: Mapped[str | None]
    failed_first_at: Mapped[int | None]
    failed_last_at: Mapped[int | None]
    created_at: Mapped[int]
    updated_at: Mapped[int]

    __table_args__ = (
        Index(
            "uq_jobs_open",
            "session_key",
            "kind",
            unique=True,
            sqlite_where=sql(OPEN_JOB),
            postgresql_where=sql(OPEN_JOB),
        ),
        Index(
            "uq_jobs_running",
            "session_key",
            unique=True,
            sqlite_where=sql(RUNNING_JOB),
            postgresql_where=sql(RUNNING_JOB),
        ),
        Index(
            "ix_jobs_notifiable",
            "run_at",
            sqlite_where=sql(NOTIFIABLE_JOB),
            postgresql_where=sql(NOTIFIABLE_JOB),
        ),
        Index(
            "ix_jobs_lease",
            "lease_until",
            sqlite_where=sql(RUNNING_JOB),
            postgresql_where=sql(RUNNING_JOB),
        ),
        Index(
            "ix_jobs_notified",
            "queue",
            "owner",
            "priority",
            "run_at",
            "id",
            sqlite_where=sql(NOTIFIED_JOB),
            postgresql_where=sql(NOTIFIED_JOB),
        ),
        Index(
            "ix_jobs_bulk",
            "owner",
            "run_at",
            "id",
            sqlite_where=sql(WAITING_BULK_JOB),
            postgresql_where=sql(WAITING_BULK_JOB),
        ),
        Index("ix_jobs_dead", "id", sqlite_where=sql(DEAD_JOB), postgresql_where=sql(DEAD_JOB)),
        Index(
            "ix_jobs_failed",
            "session_key",
            "kind",
            sqlite_where=sql(FAILED_JOB),
            postgresql_where=sql(FAILED_JOB),
        ),
        {"sqlite_autoincrement": True},  # an id is never given twice
    )


class Attempt(Base):
    """One attempt at a pass, whatever its outcome. Has figures, never text."""

    __tablename__ = "attempts"

    id: Mapped[int] = mapped_column(BigKey, primary_key=True, autoincrement=True)
    session_key: Mapped[int] = mapped_column(ForeignKey("sessions.key", ondelete="CASCADE"))
    job_id: Mapped[int | None]
    kind: Mapped[str]
    trigger: Mapped[str]
    outcome: Mapped[str]
    error_class: Mapped[str | None]
    summary_id: Mapped[int | None]
    messages_before: Mapped[int]
    messages_after: Mapped[int]
    tokens_before: Mapped[int]
    tokens_after: Mapped[int]
    absorbed_tokens: Mapped[int] = mapped_column(server_default="0")
    summary_tokens: Mapped[int] = mapped_column(server_default="0")
    threshold_tokens: Mapped[int] = mapped_column(server_default="0")
    cursor: Mapped[int]
    passes: Mapped[int]
    tokens_saved: Mapped[int]
    model: Mapped[str] = mapped_column(server_default="")
    requests: Mapped[int] = mapped_column(server_default="0")
    prompt_tokens: Mapped[int | None]
    completion_tokens: Mapped[int | None]
    total_ms: Mapped[int] = mapped_column(server_default="0")
    model_ms: Mapped[int] = mapped_column(server_default="0")
    created_at: Mapped[int]

    __table_args__ = (
        Index("ix_attempts_session", "session_key", "id"),
        {"sqlite_autoincrement": True},  # what was counted up to an id must not see it again
    )


class Total(Base):
    """A figure that only grows, counted from records that may have been deleted. `labels` is a JSON
    list of texts."""

    __tablename__ = "totals"

    name: Mapped[str] = mapped_column(primary_key=True)
    labels: Mapped[str] = mapped_column(primary_key=True)
    value: Mapped[int]


class Answer(Base):
    """An answer of a model, until it is committed. Keyed by the question, never fenced."""

    __tablename__ = "answers"

    session_key: Mapped[int] = mapped_column(
        ForeignKey("sessions.key", ondelete="CASCADE"), primary_key=True
    )
    question: Mapped[str] = mapped_column(primary_key=True)
    text: Mapped[str]
    model: Mapped[str]
    prompt_tokens: Mapped[int | None]
    completion_tokens: Mapped[int | None]
    model_ms: Mapped[int]
    created_at: Mapped[int]

    __table_args__ = (Index("ix_answers_created_at", "created_at"),)


class Signal(Base):
    """A signal about a session for its gateway. Has figures, never text."""

    __tablename__ = "signals"

    id: Mapped[int] = mapped_column(BigKey, primary_key=True, autoincrement=True)
    session_key: Mapped[int] = mapped_column(ForeignKey("sessions.key", ondelete="CASCADE"))
    owner: Mapped[str]
    kind: Mapped[str]
    quiet: Mapped[int] = mapped_column(SmallInteger, server_default="0")
    facts: Mapped[str]
    created_at: Mapped[int]

    __table_args__ = (
        Index("ix_signals_session", "session_key", "id"),
        Index("ix_signals_owner", "owner", "id"),
        {"sqlite_autoincrement": True},  # an id is never given twice
    )


class Endpoint(Base):
    """The shared state of a model's endpoint: its breaker, and the requests of this minute."""

    __tablename__ = "endpoints"

    name: Mapped[str] = mapped_column(primary_key=True)
    failures: Mapped[int] = mapped_column(server_default="0")
    open_ms: Mapped[int] = mapped_column(server_default="0")
    open_until: Mapped[int | None]
    probe_until: Mapped[int | None]
    error_class: Mapped[str | None]
    answered_at: Mapped[int | None]
    minute: Mapped[int] = mapped_column(server_default="0")
    requests: Mapped[int] = mapped_column(server_default="0")
    tokens: Mapped[int] = mapped_column(server_default="0")
    updated_at: Mapped[int]
