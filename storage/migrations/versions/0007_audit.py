"""Operations: who did what, runs of bulk re-compaction, and sessions that came from elsewhere."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_RUNNING = sa.text("state = 'running'")


def _number(name: str, default: str | None = None) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), nullable=False, server_default=default)


def upgrade() -> None:
    op.create_table(
        "audit",
        sa.Column("id", _KEY, primary_key=True, autoincrement=True),
        sa.Column("owner", sa.Text()),
        sa.Column("session", sa.Text()),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("facts", sa.Text(), nullable=False, server_default="{}"),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_audit_owner", "audit", ["owner", "id"])
    op.create_index("ix_audit_session", "audit", ["session", "id"])
    op.create_table(
        "bulk_runs",
        sa.Column("id", _KEY, primary_key=True, autoincrement=True),
        sa.Column("owner", sa.Text()),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("filters", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        _number("at_once"),
        _number("pace_ms", "0"),
        _number("next_at", "0"),
        _number("sessions"),
        _number("created_at"),
        _number("updated_at"),
        sa.Column("ended_at", sa.BigInteger()),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "uq_bulk_runs_running",
        "bulk_runs",
        ["state"],
        unique=True,
        sqlite_where=_RUNNING,
        postgresql_where=_RUNNING,
    )
    op.create_table(
        "bulk_sessions",
        sa.Column(
            "run_id",
            _KEY,
            sa.ForeignKey("bulk_runs.id", ondelete="CASCADE"),
            primary_key=True,
        ),
        sa.Column(
            "session_key",
            _KEY,
            sa.ForeignKey("sessions.key", ondelete="CASCADE"),
            primary_key=True,
        ),
        _number("place"),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("job_id", sa.BigInteger()),
        _number("after_attempt", "0"),
        sa.Column("outcome", sa.Text()),
        sa.Column("error_class", sa.Text()),
        sa.Column("tokens_before", sa.BigInteger()),
        sa.Column("tokens_after", sa.BigInteger()),
        _number("requests", "0"),
        _number("prompt_tokens", "0"),
        _number("completion_tokens", "0"),
        sa.Column("settled_at", sa.BigInteger()),
    )
    for state in ("waiting", "asked"):
        predicate = sa.text(f"state = '{state}'")
        op.create_index(
            f"ix_bulk_sessions_{state}",
            "bulk_sessions",
            ["run_id", "place"],
            sqlite_where=predicate,
            postgresql_where=predicate,
        )
    op.create_index("ix_bulk_sessions_session", "bulk_sessions", ["session_key"])
    op.create_table(
        "imported_sessions",
        sa.Column(
            "session_key",
            _KEY,
            sa.ForeignKey("sessions.key", ondelete="CASCADE"),
            primary_key=True,
        ),
        sa.Column("origin", sa.Text(), nullable=False),
        _number("rows"),
        _number("last_row"),
        sa.Column("digest", sa.Text(), nullable=False),
        _number("updated_at"),
    )


def downgrade() -> None:
    for table in ("imported_sessions", "bulk_sessions", "bulk_runs", "audit"):
        op.drop_table(table)
