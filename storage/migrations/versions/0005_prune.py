"""Pruning: the short form of old tool output, beside the original."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

# Nullable, so that programs of the version before go on working: they show the originals.
_COLUMNS = (
    sa.Column("pruned", sa.Text(), nullable=True),
    sa.Column("spared_tokens", sa.BigInteger(), nullable=True),
    sa.Column("same_as", sa.BigInteger(), nullable=True),
)


def upgrade() -> None:
    for column in _COLUMNS:
        op.add_column("messages", column)
    predicate = sa.text("pruned IS NOT NULL")
    op.create_index(
        "ix_messages_pruned",
        "messages",
        ["session_key", "position"],
        sqlite_where=predicate,
        postgresql_where=predicate,
    )


def downgrade() -> None:
    # The originals are shown again, so they count again.
    op.execute(
        "UPDATE sessions SET live_tokens = live_tokens +"
        " (SELECT COALESCE(SUM(spared_tokens), 0) FROM messages"
        ' WHERE messages.session_key = sessions."key" AND pruned IS NOT NULL AND active = 1),'
        " revision = revision + 1"
        ' WHERE EXISTS (SELECT 1 FROM messages WHERE messages.session_key = sessions."key"'
        " AND pruned IS NOT NULL)"
    )
    op.execute("UPDATE messages SET tokens = tokens + spared_tokens WHERE pruned IS NOT NULL")
    op.execute("DELETE FROM jobs WHERE kind = 'prune'")
    op.execute("DELETE FROM guards WHERE name = 'prune_mark'")
    op.drop_index("ix_messages_pruned", table_name="messages")
    for column in reversed(_COLUMNS):
        op.drop_column("messages", column.name)
