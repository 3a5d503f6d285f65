"""Conversations: sessions, messages, summaries, events and cursors."""

from __future__ import annotations

from sqlalchemy import ForeignKey, Index, SmallInteger, UniqueConstraint
from sqlalchemy import text as sql
from sqlalchemy.orm import Mapped, mapped_column

from storage.models.base import Base, BigKey

LIVE = "active = 1"
LIVE_MARKER = "active = 1 AND summary_id IS NOT NULL"
LIVE_CALLS = "active = 1 AND call_ids IS NOT NULL"
OPENS_TURN = "opens_turn = 1"
AGENT_ROW = (
    "active = 1 AND (role = 'assistant' OR role = 'tool' OR origin = 'runtime' OR origin = 'tool')"
)
"""Live rows that micro-compaction may absorb: neither a person nor the system wrote them."""
MESSAGE_ROW = "kind = 'message'"
PRUNED = "pruned IS NOT NULL"
"""Rows that the view shows in a short form."""
REPORTED = "usage IS NOT NULL"
"""Events with a gateway's usage report."""
UNDECIDED = "decided_turns < turns"
"""Sessions with a closed turn, or a report in an open one, for which it is not decided yet what is
due."""
IDLE_UNSEEN = "idle_since IS NOT NULL AND ended_at IS NULL AND archived_at IS NULL"
"""Sessions that no scan has seen as idle since they were last active."""
ENDED = "ended_at IS NOT NULL"
LIVE_PLACEHOLDER = "status = 'live' AND kind = 'placeholder'"


class Session(Base):
    """One conversation. `key` is ours, `id` is the owner's name for it."""

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
    unabsorbed_tokens: Mapped[int] = mapped_column(server_default="0")
    checked_tokens: Mapped[int | None] = mapped_column(server_default="0")
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
    """One version of a summary: its text, what it covers, what it replaced."""

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
    """One row of a conversation; `storage.conversations.payload` lays a chat dict out here."""

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
    """An event that a gateway reported once: rows appended, turn closed, usage."""

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
