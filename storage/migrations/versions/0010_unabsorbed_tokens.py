"""What a micro pass could take from, counted, in place of a mark that was worked out from rows."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.drop_column("sessions", "micro_mark")
    tokens = sa.Column("unabsorbed_tokens", sa.BigInteger(), server_default="0", nullable=False)
    op.add_column("sessions", tokens)
    op.add_column("sessions", sa.Column("checked_tokens", sa.BigInteger(), nullable=True))
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
    op.add_column("sessions", sa.Column("micro_mark", sa.Text(), nullable=True))
