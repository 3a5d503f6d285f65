"""Work: jobs, attempts and answers."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "jobs",
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
        sa.Column("state", sa.Text(), server_default="due", nullable=False),
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("trigger", sa.Text(), nullable=False),
        sa.Column("strength", sa.SmallInteger(), server_default="0", nullable=False),
        sa.Column("options", sa.Text(), nullable=True),
        sa.Column("run_at", sa.BigInteger(), nullable=False),
        sa.Column("attempt", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("fence", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("holder", sa.Text(), nullable=True),
        sa.Column("lease_until", sa.BigInteger(), nullable=True),
        sa.Column("deadline_at", sa.BigInteger(), nullable=True),
        sa.Column("again", sa.SmallInteger(), server_default="0", nullable=False),
        sa.Column("rung_at", sa.BigInteger(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("trace", sa.Text(), nullable=True),
        sa.Column("failed_first_at", sa.BigInteger(), nullable=True),
        sa.Column("failed_last_at", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["session_key"], ["sessions.key"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "ix_jobs_due",
        "jobs",
        ["run_at"],
        unique=False,
        sqlite_where=sa.text("state = 'due'"),
        postgresql_where=sa.text("state = 'due'"),
    )
    op.create_index(
        "ix_jobs_lease",
        "jobs",
        ["lease_until"],
        unique=False,
        sqlite_where=sa.text("state = 'running'"),
        postgresql_where=sa.text("state = 'running'"),
    )
    op.create_index(
        "uq_jobs_open",
        "jobs",
        ["session_key", "kind"],
        unique=True,
        sqlite_where=sa.text("state IN ('due', 'running')"),
        postgresql_where=sa.text("state IN ('due', 'running')"),
    )
    op.create_index(
        "uq_jobs_running",
        "jobs",
        ["session_key"],
        unique=True,
        sqlite_where=sa.text("state = 'running'"),
        postgresql_where=sa.text("state = 'running'"),
    )
    op.create_table(
        "attempts",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column(
            "session_key", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False
        ),
        sa.Column("job_id", sa.BigInteger(), nullable=True),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("trigger", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("error_class", sa.Text(), nullable=True),
        sa.Column("summary_id", sa.BigInteger(), nullable=True),
        sa.Column("messages_before", sa.BigInteger(), nullable=False),
        sa.Column("messages_after", sa.BigInteger(), nullable=False),
        sa.Column("tokens_before", sa.BigInteger(), nullable=False),
        sa.Column("tokens_after", sa.BigInteger(), nullable=False),
        sa.Column("absorbed_tokens", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("summary_tokens", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("threshold_tokens", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("cursor", sa.BigInteger(), nullable=False),
        sa.Column("passes", sa.BigInteger(), nullable=False),
        sa.Column("tokens_saved", sa.BigInteger(), nullable=False),
        sa.Column("model", sa.Text(), server_default="", nullable=False),
        sa.Column("requests", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("prompt_tokens", sa.BigInteger(), nullable=True),
        sa.Column("completion_tokens", sa.BigInteger(), nullable=True),
        sa.Column("total_ms", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("model_ms", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["session_key"], ["sessions.key"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_attempts_session", "attempts", ["session_key", "id"], unique=False)
    op.create_table(
        "answers",
        sa.Column(
            "session_key", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False
        ),
        sa.Column("question", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("prompt_tokens", sa.BigInteger(), nullable=True),
        sa.Column("completion_tokens", sa.BigInteger(), nullable=True),
        sa.Column("model_ms", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["session_key"], ["sessions.key"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("session_key", "question"),
    )


def downgrade() -> None:
    op.drop_table("answers")
    op.drop_table("attempts")
    op.drop_table("jobs")
