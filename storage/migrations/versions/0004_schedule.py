"""Delivery and schedule: fair turns between owners, pauses, slots, and what scans look for."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

# Each with a default or nullable, so that programs of the version before go on working.
_COLUMNS = (
    # Sessions of before count as decided about until their next turn.
    ("sessions", sa.Column("decided_turns", sa.BigInteger(), nullable=True)),
    ("sessions", sa.Column("idle_since", sa.BigInteger(), nullable=True)),
    ("jobs", sa.Column("owner", sa.Text(), nullable=True)),
)

# Like `ix_jobs_due`, which it takes the place of, but without bulk jobs whose turn has not come.
_RINGABLE = "state = 'due' AND (queue <> 'recompact' OR rung_at IS NOT NULL)"

_INDEXES = (
    ("ix_sessions_undecided", "sessions", ["key"], "decided_turns < turns"),
    (
        "ix_sessions_idle",
        "sessions",
        ["idle_since", "key"],
        "idle_since IS NOT NULL AND ended_at IS NULL AND archived_at IS NULL",
    ),
    ("ix_sessions_ended", "sessions", ["ended_at", "key"], "ended_at IS NOT NULL"),
    (
        "ix_summaries_placeholders",
        "summaries",
        ["created_at", "session_key"],
        "status = 'live' AND kind = 'placeholder'",
    ),
    ("ix_guards_cooldown", "guards", ["until_at", "session_key"], "name = 'cooldown'"),
    (
        "ix_jobs_rung",
        "jobs",
        ["queue", "owner", "strength", "run_at", "id"],
        "state = 'due' AND rung_at IS NOT NULL",
    ),
    ("ix_jobs_ringable", "jobs", ["run_at"], _RINGABLE),
    (
        "ix_jobs_bulk",
        "jobs",
        ["owner", "run_at", "id"],
        "state = 'due' AND queue = 'recompact' AND rung_at IS NULL",
    ),
    ("ix_jobs_dead", "jobs", ["id"], "state = 'dead'"),
    ("ix_jobs_failed", "jobs", ["session_key", "kind"], "failed_last_at IS NOT NULL"),
    ("ix_answers_created_at", "answers", ["created_at"], None),
)


def upgrade() -> None:
    for table, column in _COLUMNS:
        op.add_column(table, column)
    op.execute(
        "UPDATE jobs SET owner ="
        ' (SELECT sessions.owner FROM sessions WHERE sessions."key" = jobs.session_key)'
        " WHERE state IN ('due', 'running')"
    )
    # Before the index is made: sessions that are idle already are looked at once, too.
    op.execute("UPDATE sessions SET idle_since = active_at WHERE ended_at IS NULL")
    for name, table, columns, where in _INDEXES:
        predicate = sa.text(where) if where else None
        op.create_index(name, table, columns, sqlite_where=predicate, postgresql_where=predicate)
    op.drop_index("ix_jobs_due", table_name="jobs")
    op.create_table(
        "schedule_slots",
        sa.Column("schedule", sa.Text(), nullable=False),
        sa.Column("slot", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("taken_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("schedule", "slot"),
    )
    op.create_table(
        "queue_states",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("paused_at", sa.BigInteger(), nullable=True),
        sa.Column("reason", sa.Text(), server_default="", nullable=False),
        sa.Column("last_owner", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("name"),
    )


def downgrade() -> None:
    op.drop_table("queue_states")
    op.drop_table("schedule_slots")
    due = sa.text("state = 'due'")
    op.create_index("ix_jobs_due", "jobs", ["run_at"], sqlite_where=due, postgresql_where=due)
    for name, table, _, _ in reversed(_INDEXES):
        op.drop_index(name, table_name=table)
    for table, column in reversed(_COLUMNS):
        op.drop_column(table, column.name)
