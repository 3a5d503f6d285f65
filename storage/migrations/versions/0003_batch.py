"""Batch summarisation: what it stores, what holds it back, and what gateways are told."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

# Each with a default or nullable, so that programs of the version before go on working.
_COLUMNS = (
    ("sessions", sa.Column("declared_window", sa.BigInteger(), nullable=True)),
    ("sessions", sa.Column("managed_by", sa.Text(), nullable=True)),
    ("sessions", sa.Column("calibration", sa.Text(), nullable=True)),
    ("summaries", sa.Column("verbatim", sa.Text(), server_default="", nullable=False)),
    ("turn_events", sa.Column("view_tokens", sa.BigInteger(), nullable=True)),
    ("jobs", sa.Column("tries", sa.BigInteger(), server_default="0", nullable=False)),
    ("jobs", sa.Column("next_queue", sa.Text(), nullable=True)),
    ("jobs", sa.Column("next_trigger", sa.Text(), nullable=True)),
    ("jobs", sa.Column("next_strength", sa.SmallInteger(), nullable=True)),
    ("jobs", sa.Column("next_options", sa.Text(), nullable=True)),
)


def upgrade() -> None:
    for table, column in _COLUMNS:
        op.add_column(table, column)
    op.create_index(
        "ix_turn_events_usage",
        "turn_events",
        ["session_key", "id"],
        unique=False,
        sqlite_where=sa.text("usage IS NOT NULL"),
        postgresql_where=sa.text("usage IS NOT NULL"),
    )
    op.create_table(
        "signals",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column(
            "session_key", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False
        ),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("quiet", sa.SmallInteger(), server_default="0", nullable=False),
        sa.Column("facts", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["session_key"], ["sessions.key"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_signals_owner", "signals", ["owner", "id"], unique=False)
    op.create_index("ix_signals_session", "signals", ["session_key", "id"], unique=False)
    op.create_table(
        "endpoints",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("failures", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("open_ms", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("open_until", sa.BigInteger(), nullable=True),
        sa.Column("probe_until", sa.BigInteger(), nullable=True),
        sa.Column("error_class", sa.Text(), nullable=True),
        sa.Column("answered_at", sa.BigInteger(), nullable=True),
        sa.Column("minute", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("requests", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("tokens", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )


def downgrade() -> None:
    op.drop_table("endpoints")
    op.drop_table("signals")
    op.drop_index("ix_turn_events_usage", table_name="turn_events")
    for table, column in reversed(_COLUMNS):
        op.drop_column(table, column.name)
