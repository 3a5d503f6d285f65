"""The tables, one schema for SQLite and PostgreSQL.

Times are milliseconds since 1970 (UTC) by the database's clock. Flags are 0 or 1. Predicates of
partial indexes are literal text here and in the statements that rely on them: a bound parameter
there makes PostgreSQL's generic plan miss the index.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    ForeignKey,
    Index,
    Integer,
    SmallInteger,
    Table,
    UniqueConstraint,
)
from sqlalchemy import text as sql
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from storage.escape import EscapedText

BigKey = BigInteger().with_variant(Integer, "sqlite")

LIVE = "active = 1"
LIVE_MARKER = "active = 1 AND summary_id IS NOT NULL"
LIVE_CALLS = "active = 1 AND call_ids IS NOT NULL"
OPENS_TURN = "opens_turn = 1"
AGENT_ROW = (
    "active = 1 AND (role = 'assistant' OR role = 'tool' OR origin = 'runtime' OR origin = 'tool')"
)
"""Live rows that micro-compaction may absorb: what a person or the system wrote is none."""
MESSAGE_ROW = "kind = 'message'"
PRUNED = "pruned IS NOT NULL"
"""Rows that the view shows in a short form."""
REPORTED = "usage IS NOT NULL"
"""Events with which a gateway reported what the provider counted."""
OPEN_JOB = "state IN ('due', 'running')"
RUNNING_JOB = "state = 'running'"
BULK_QUEUE = "recompact"
"""The queue of bulk work: of its jobs only a few are rung for at a time (`jobs.ring_bulk`)."""
RINGABLE_JOB = "state = 'due' AND (queue <> 'recompact' OR rung_at IS NOT NULL)"
"""Due jobs but for bulk ones whose turn has not come."""
WAITING_BULK_JOB = "state = 'due' AND queue = 'recompact' AND rung_at IS NULL"
RUNG_JOB = "state = 'due' AND rung_at IS NOT NULL"
"""Jobs that can be claimed now and were rung for: a ring for one that waits is never noted."""
DEAD_JOB = "state = 'dead'"
FAILED_JOB = "failed_last_at IS NOT NULL"
UNDECIDED = "decided_turns < turns"
"""Sessions with a closed turn, or a report in an open one, about which it was not decided yet what
is due."""
IDLE_UNSEEN = "idle_since IS NOT NULL AND ended_at IS NULL AND archived_at IS NULL"
"""Sessions that nobody has looked at as idle ones since they were last active."""
ENDED = "ended_at IS NOT NULL"
COOLDOWN_GUARD = "name = 'cooldown'"
LIVE_PLACEHOLDER = "status = 'live' AND kind = 'placeholder'"
PAUSED_QUEUE = "paused_at IS NOT NULL"
RUNNING_BULK = "state = 'running'"
"""Runs of bulk work that go on: one at a time."""
WAITING_IN_BULK = "state = 'waiting'"
ASKED_IN_BULK = "state = 'asked'"
"""Sessions of a run that were asked for and are not settled: a handful of any number."""


class Base(DeclarativeBase):
    type_annotation_map = {str: EscapedText, int: BigInteger}  # noqa: RUF012 - read by SQLAlchemy


def table_of(mapped: type[Base]) -> Table:
    """The table behind a mapped class, for statements that are built once."""
    return Base.metadata.tables[mapped.__tablename__]


class Session(Base):
    """One conversation. `key` is ours, `id` is the owner's name for it (ENGINE.md §12)."""

    __tablename__ = "sessions"

    key: Mapped[int] = mapped_column(BigKey, primary_key=True, autoincrement=True)
    owner: Mapped[str]
    id: Mapped[str]
    source: Mapped[str]
    chat_id: Mapped[str | None]
    thread_id: Mapped[str] = mapped_column(server_default="")
    title: Mapped[str | None]
    model: Mapped[str] = mapped_column(server_default="")
    model_config: Mapped[str | None]
    context_window: Mapped[int | None]
    reserved_output: Mapped[int] = mapped_column(server_default="0")
    declared_window: Mapped[int | None]
    managed_by: Mapped[str | None]
    calibration: Mapped[str | None]
    parent_key: Mapped[int | None] = mapped_column(ForeignKey("sessions.key"))
    link: Mapped[str | None]

    revision: Mapped[int] = mapped_column(server_default="0")
    next_position: Mapped[int] = mapped_column(server_default="0")
    turns: Mapped[int] = mapped_column(server_default="0")
    turn_open: Mapped[int] = mapped_column(SmallInteger, server_default="0")
    decided_turns: Mapped[int | None]
    live_messages: Mapped[int] = mapped_column(server_default="0")
    live_tokens: Mapped[int] = mapped_column(server_default="0")
    passes: Mapped[int] = mapped_column(server_default="0")
    tokens_saved: Mapped[int] = mapped_column(server_default="0")

    started_at: Mapped[int]
    active_at: Mapped[int]
    idle_since: Mapped[int | None]
    ended_at: Mapped[int | None]
    archived_at: Mapped[int | None]

    __table_args__ = (
        UniqueConstraint("owner", "id", name="uq_sessions_owner_id"),
        Index(
            "uq_sessions_chat",
            "owner",
            "source",
            "chat_id",
            "thread_id",
            unique=True,
            sqlite_where=sql("chat_id IS NOT NULL AND ended_at IS NULL"),
            postgresql_where=sql("chat_id IS NOT NULL AND ended_at IS NULL"),
        ),
        Index(
            "uq_sessions_title",
            "owner",
            "title",
            unique=True,
            sqlite_where=sql("title IS NOT NULL"),
            postgresql_where=sql("title IS NOT NULL"),
        ),
        Index("ix_sessions_active_at", "active_at"),
        Index(
            "ix_sessions_undecided",
            "key",
            sqlite_where=sql(UNDECIDED),
            postgresql_where=sql(UNDECIDED),
        ),
        Index(
            "ix_sessions_idle",
            "idle_since",
            "key",
            sqlite_where=sql(IDLE_UNSEEN),
            postgresql_where=sql(IDLE_UNSEEN),
        ),
        Index(
            "ix_sessions_ended",
            "ended_at",
            "key",
            sqlite_where=sql(ENDED),
            postgresql_where=sql(ENDED),
        ),
    )


class SystemPrompt(Base):
    """The first system prompt of a session. Apart, so that counting a turn does not rewrite it."""

    __tablename__ = "system_prompts"

    session_key: Mapped[int] = mapped_column(
        ForeignKey("sessions.key", ondelete="CASCADE"), primary_key=True
    )
    prompt: Mapped[str]


class Summary(Base):
    """One version of a summary: what it says, what it covers, what it took the place of."""

    __tablename__ = "summaries"

    id: Mapped[int] = mapped_column(BigKey, primary_key=True, autoincrement=True)
    session_key: Mapped[int] = mapped_column(ForeignKey("sessions.key", ondelete="CASCADE"))
    kind: Mapped[str]
    status: Mapped[str]
    text: Mapped[str]
    verbatim: Mapped[str] = mapped_column(server_default="")
    tokens: Mapped[int]
    first_position: Mapped[int]
    last_position: Mapped[int]
    replaces: Mapped[int | None] = mapped_column(ForeignKey("summaries.id"))
    cursor_before: Mapped[int]
    template: Mapped[str]
    model: Mapped[str]
    created_at: Mapped[int]

    __table_args__ = (
        Index(
            "ix_summaries_live",
            "session_key",
            "id",
            sqlite_where=sql("status = 'live'"),
            postgresql_where=sql("status = 'live'"),
        ),
        Index(
            "ix_summaries_placeholders",
            "created_at",
            "session_key",
            sqlite_where=sql(LIVE_PLACEHOLDER),
            postgresql_where=sql(LIVE_PLACEHOLDER),
        ),
        {"sqlite_autoincrement": True},  # an id is never given twice
    )


class Message(Base):
    """One row of a conversation. See `storage.payload` for how a chat dict is laid out here."""

    __tablename__ = "messages"

    id: Mapped[int] = mapped_column(BigKey, primary_key=True, autoincrement=True)
    session_key: Mapped[int] = mapped_column(ForeignKey("sessions.key", ondelete="CASCADE"))
    position: Mapped[int]
    kind: Mapped[str] = mapped_column(server_default="message")
    role: Mapped[str | None]
    origin: Mapped[str | None]
    opens_turn: Mapped[int] = mapped_column(SmallInteger, server_default="0")
    tokens: Mapped[int]
    active: Mapped[int] = mapped_column(SmallInteger, server_default="1")
    compacted: Mapped[int] = mapped_column(SmallInteger, server_default="0")
    absorbed_by: Mapped[int | None] = mapped_column(ForeignKey("summaries.id"))
    summary_id: Mapped[int | None] = mapped_column(ForeignKey("summaries.id"))
    call_ids: Mapped[str | None]
    answer_ids: Mapped[str | None]
    content: Mapped[str | None]
    fields: Mapped[str | None]
    pruned: Mapped[str | None]
    spared_tokens: Mapped[int | None]
    same_as: Mapped[int | None]
    created_at: Mapped[int]

    __table_args__ = (
        Index(
            "uq_messages_position",
            "session_key",
            "position",
            unique=True,
            sqlite_where=sql(MESSAGE_ROW),
            postgresql_where=sql(MESSAGE_ROW),
        ),
        Index(
            "ix_messages_live",
            "session_key",
            "position",
            sqlite_where=sql(LIVE),
            postgresql_where=sql(LIVE),
        ),
        Index(
            "ix_messages_markers",
            "session_key",
            sqlite_where=sql(LIVE_MARKER),
            postgresql_where=sql(LIVE_MARKER),
        ),
        Index(
            "ix_messages_live_calls",
            "session_key",
            "position",
            sqlite_where=sql(LIVE_CALLS),
            postgresql_where=sql(LIVE_CALLS),
        ),
        Index(
            "ix_messages_agent",
            "session_key",
            "position",
            sqlite_where=sql(AGENT_ROW),
            postgresql_where=sql(AGENT_ROW),
        ),
        Index(
            "ix_messages_turns",
            "session_key",
            "position",
            sqlite_where=sql(OPENS_TURN),
            postgresql_where=sql(OPENS_TURN),
        ),
        Index(
            "ix_messages_absorbed_by",
            "absorbed_by",
            sqlite_where=sql("absorbed_by IS NOT NULL"),
            postgresql_where=sql("absorbed_by IS NOT NULL"),
        ),
        Index(
            "ix_messages_pruned",
            "session_key",
            "position",
            sqlite_where=sql(PRUNED),
            postgresql_where=sql(PRUNED),
        ),
        {"sqlite_autoincrement": True},  # an id is never given twice
    )


class TurnEvent(Base):
    """What a gateway told once: rows appended, turn closed, usage seen."""

    __tablename__ = "turn_events"

    id: Mapped[int] = mapped_column(BigKey, primary_key=True, autoincrement=True)
    session_key: Mapped[int] = mapped_column(ForeignKey("sessions.key", ondelete="CASCADE"))
    event_id: Mapped[str]
    digest: Mapped[str]
    turn: Mapped[int | None]
    first_position: Mapped[int]
    rows: Mapped[int]
    usage: Mapped[str | None]
    view_tokens: Mapped[int | None]
    revision: Mapped[int]
    created_at: Mapped[int]

    __table_args__ = (
        UniqueConstraint("session_key", "event_id", name="uq_turn_events_event"),
        Index(
            "ix_turn_events_usage",
            "session_key",
            "id",
            sqlite_where=sql(REPORTED),
            postgresql_where=sql(REPORTED),
        ),
    )


class Cursor(Base):
    """A place in a session up to which something was done, by name."""

    __tablename__ = "cursors"

    session_key: Mapped[int] = mapped_column(
        ForeignKey("sessions.key", ondelete="CASCADE"), primary_key=True
    )
    name: Mapped[str] = mapped_column(primary_key=True)
    position: Mapped[int]


class Guard(Base):
    """Something that holds work of a session back, by name (`storage.guards.GuardName`)."""

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
    """One piece of open work (ARCHITECTURE.md, *Jobs*)."""

    __tablename__ = "jobs"

    id: Mapped[int] = mapped_column(BigKey, primary_key=True, autoincrement=True)
    session_key: Mapped[int] = mapped_column(ForeignKey("sessions.key", ondelete="CASCADE"))
    owner: Mapped[str | None]
    kind: Mapped[str]
    state: Mapped[str] = mapped_column(server_default="due")
    queue: Mapped[str]
    trigger: Mapped[str]
    strength: Mapped[int] = mapped_column(SmallInteger, server_default="0")
    options: Mapped[str | None]
    run_at: Mapped[int]
    attempt: Mapped[int] = mapped_column(server_default="0")
    tries: Mapped[int] = mapped_column(server_default="0")
    fence: Mapped[int] = mapped_column(server_default="0")
    holder: Mapped[str | None]
    lease_until: Mapped[int | None]
    deadline_at: Mapped[int | None]
    again: Mapped[int] = mapped_column(SmallInteger, server_default="0")
    next_queue: Mapped[str | None]
    next_trigger: Mapped[str | None]
    next_strength: Mapped[int | None] = mapped_column(SmallInteger)
    next_options: Mapped[str | None]
    rung_at: Mapped[int | None]
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
            "ix_jobs_ringable",
            "run_at",
            sqlite_where=sql(RINGABLE_JOB),
            postgresql_where=sql(RINGABLE_JOB),
        ),
        Index(
            "ix_jobs_lease",
            "lease_until",
            sqlite_where=sql(RUNNING_JOB),
            postgresql_where=sql(RUNNING_JOB),
        ),
        Index(
            "ix_jobs_rung",
            "queue",
            "owner",
            "strength",
            "run_at",
            "id",
            sqlite_where=sql(RUNG_JOB),
            postgresql_where=sql(RUNG_JOB),
        ),
        Index(
            "ix_jobs_bulk",
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
    """One try of a pass, whatever came of it. Holds figures, never text (ENGINE.md §7)."""

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

    __table_args__ = (Index("ix_attempts_session", "session_key", "id"),)


class Answer(Base):
    """What a model said, until it is committed. Keyed by the question, never fenced."""

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
    """Something that a gateway is told of one of its sessions. Holds figures, never text."""

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
    """What all workers know of a model's endpoint: its breaker, and what was asked this minute."""

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


class ScheduleSlot(Base):
    """A tick of a schedule that somebody has taken: slot `n` is the n-th interval since 1970."""

    __tablename__ = "schedule_slots"

    schedule: Mapped[str] = mapped_column(primary_key=True)
    slot: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    taken_at: Mapped[int]


class QueueState(Base):
    """A queue that operators have paused, or had paused before."""

    __tablename__ = "queue_states"

    name: Mapped[str] = mapped_column(primary_key=True)
    paused_at: Mapped[int | None]
    reason: Mapped[str] = mapped_column(server_default="")


class AuditEntry(Base):
    """Something that somebody did. It outlives its session: it names it, and refers to none."""

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
    """A re-compaction of many sessions: whom it is for, how fast it may go, how it stands."""

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
    """A session of a run: waiting, asked for (its job is open), or settled with what came of it."""

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
    """How far a session that came from elsewhere was read there."""

    __tablename__ = "imported_sessions"

    session_key: Mapped[int] = mapped_column(
        ForeignKey("sessions.key", ondelete="CASCADE"), primary_key=True
    )
    origin: Mapped[str]
    rows: Mapped[int]
    last_row: Mapped[int]
    digest: Mapped[str]
    updated_at: Mapped[int]
