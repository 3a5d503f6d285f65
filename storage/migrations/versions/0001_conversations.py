"""Conversations: sessions, messages, summaries and what is known about them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_AGENT_ROW = (
    "active = 1 AND (role = 'assistant' OR role = 'tool' OR origin = 'runtime' OR origin = 'tool')"
)


def upgrade() -> None:
    op.create_table(
        "sessions",
        sa.Column(
            "key",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("chat_id", sa.Text(), nullable=True),
        sa.Column("thread_id", sa.Text(), server_default="", nullable=False),
        sa.Column("title", sa.Text(), nullable=True),
        sa.Column("model", sa.Text(), server_default="", nullable=False),
        sa.Column("model_config", sa.Text(), nullable=True),
        sa.Column("context_window", sa.BigInteger(), nullable=True),
        sa.Column("reserved_output", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column(
            "parent_key", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True
        ),
        sa.Column("link", sa.Text(), nullable=True),
        sa.Column("revision", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("next_position", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("turns", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("turn_open", sa.SmallInteger(), server_default="0", nullable=False),
        sa.Column("live_messages", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("live_tokens", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("passes", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("tokens_saved", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("active_at", sa.BigInteger(), nullable=False),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.Column("archived_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["parent_key"],
            ["sessions.key"],
        ),
        sa.PrimaryKeyConstraint("key"),
        sa.UniqueConstraint("owner", "id", name="uq_sessions_owner_id"),
    )
    op.create_index("ix_sessions_active_at", "sessions", ["active_at"], unique=False)
    op.create_index(
        "uq_sessions_chat",
        "sessions",
        ["owner", "source", "chat_id", "thread_id"],
        unique=True,
        sqlite_where=sa.text("chat_id IS NOT NULL AND ended_at IS NULL"),
        postgresql_where=sa.text("chat_id IS NOT NULL AND ended_at IS NULL"),
    )
    op.create_index(
        "uq_sessions_title",
        "sessions",
        ["owner", "title"],
        unique=True,
        sqlite_where=sa.text("title IS NOT NULL"),
        postgresql_where=sa.text("title IS NOT NULL"),
    )
    op.create_table(
        "system_prompts",
        sa.Column(
            "session_key", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False
        ),
        sa.Column("prompt", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["session_key"], ["sessions.key"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("session_key"),
    )
    op.create_table(
        "summaries",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column(
            "session_key", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False
        ),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("tokens", sa.BigInteger(), nullable=False),
        sa.Column("first_position", sa.BigInteger(), nullable=False),
        sa.Column("last_position", sa.BigInteger(), nullable=False),
        sa.Column("replaces", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("cursor_before", sa.BigInteger(), nullable=False),
        sa.Column("template", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["replaces"],
            ["summaries.id"],
        ),
        sa.ForeignKeyConstraint(["session_key"], ["sessions.key"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "ix_summaries_live",
        "summaries",
        ["session_key", "id"],
        unique=False,
        sqlite_where=sa.text("status = 'live'"),
        postgresql_where=sa.text("status = 'live'"),
    )
    op.create_table(
        "messages",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column(
            "session_key", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False
        ),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), server_default="message", nullable=False),
        sa.Column("role", sa.Text(), nullable=True),
        sa.Column("origin", sa.Text(), nullable=True),
        sa.Column("opens_turn", sa.SmallInteger(), server_default="0", nullable=False),
        sa.Column("tokens", sa.BigInteger(), nullable=False),
        sa.Column("active", sa.SmallInteger(), server_default="1", nullable=False),
        sa.Column("compacted", sa.SmallInteger(), server_default="0", nullable=False),
        sa.Column(
            "absorbed_by", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True
        ),
        sa.Column(
            "summary_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True
        ),
        sa.Column("call_ids", sa.Text(), nullable=True),
        sa.Column("answer_ids", sa.Text(), nullable=True),
        sa.Column("content", sa.Text(), nullable=True),
        sa.Column("fields", sa.Text(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["absorbed_by"],
            ["summaries.id"],
        ),
        sa.ForeignKeyConstraint(["session_key"], ["sessions.key"], ondelete="CASCADE"),
        sa.ForeignKeyConstraint(
            ["summary_id"],
            ["summaries.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "ix_messages_absorbed_by",
        "messages",
        ["absorbed_by"],
        unique=False,
        sqlite_where=sa.text("absorbed_by IS NOT NULL"),
        postgresql_where=sa.text("absorbed_by IS NOT NULL"),
    )
    op.create_index(
        "ix_messages_live",
        "messages",
        ["session_key", "position"],
        unique=False,
        sqlite_where=sa.text("active = 1"),
        postgresql_where=sa.text("active = 1"),
    )
    op.create_index(
        "ix_messages_live_calls",
        "messages",
        ["session_key", "position"],
        unique=False,
        sqlite_where=sa.text("active = 1 AND call_ids IS NOT NULL"),
        postgresql_where=sa.text("active = 1 AND call_ids IS NOT NULL"),
    )
    op.create_index(
        "ix_messages_markers",
        "messages",
        ["session_key"],
        unique=False,
        sqlite_where=sa.text("active = 1 AND summary_id IS NOT NULL"),
        postgresql_where=sa.text("active = 1 AND summary_id IS NOT NULL"),
    )
    op.create_index(
        "ix_messages_agent",
        "messages",
        ["session_key", "position"],
        unique=False,
        sqlite_where=sa.text(_AGENT_ROW),
        postgresql_where=sa.text(_AGENT_ROW),
    )
    op.create_index(
        "ix_messages_turns",
        "messages",
        ["session_key", "position"],
        unique=False,
        sqlite_where=sa.text("opens_turn = 1"),
        postgresql_where=sa.text("opens_turn = 1"),
    )
    op.create_index(
        "uq_messages_position",
        "messages",
        ["session_key", "position"],
        unique=True,
        sqlite_where=sa.text("kind = 'message'"),
        postgresql_where=sa.text("kind = 'message'"),
    )
    op.create_table(
        "turn_events",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column(
            "session_key", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False
        ),
        sa.Column("event_id", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("turn", sa.BigInteger(), nullable=True),
        sa.Column("first_position", sa.BigInteger(), nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("usage", sa.Text(), nullable=True),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["session_key"], ["sessions.key"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("session_key", "event_id", name="uq_turn_events_event"),
    )
    op.create_table(
        "cursors",
        sa.Column(
            "session_key", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False
        ),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["session_key"], ["sessions.key"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("session_key", "name"),
    )
    op.create_table(
        "guards",
        sa.Column(
            "session_key", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False
        ),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("count", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("subject", sa.BigInteger(), nullable=True),
        sa.Column("until_at", sa.BigInteger(), nullable=True),
        sa.Column("detail", sa.Text(), nullable=True),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["session_key"], ["sessions.key"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("session_key", "name"),
    )


def downgrade() -> None:
    op.drop_table("guards")
    op.drop_table("cursors")
    op.drop_table("turn_events")
    op.drop_table("messages")
    op.drop_table("summaries")
    op.drop_table("system_prompts")
    op.drop_table("sessions")
