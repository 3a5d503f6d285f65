"""Tokens that no micro pass has absorbed yet, counted per session."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    tokens = sa.Column("unabsorbed_tokens", sa.BigInteger(), server_default="0", nullable=False)
    op.add_column("sessions", tokens)
    checked = sa.Column("checked_tokens", sa.BigInteger(), server_default="0", nullable=True)
    op.add_column("sessions", checked)
    op.execute(
        "UPDATE sessions SET unabsorbed_tokens = COALESCE((SELECT SUM(messages.tokens)"
        " FROM messages WHERE messages.session_key = sessions.key AND messages.active = 1"
        " AND messages.kind = 'message' AND messages.position >= COALESCE("
        "(SELECT cursors.position FROM cursors"
        " WHERE cursors.session_key = sessions.key AND cursors.name = 'micro'), 0)), 0)"
    )


def downgrade() -> None:
    op.drop_column("sessions", "checked_tokens")
    op.drop_column("sessions", "unabsorbed_tokens")
