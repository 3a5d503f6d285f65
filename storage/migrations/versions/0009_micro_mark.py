"""How large a session may grow before anybody asks again what a micro pass could absorb."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Nullable, so that programs of the version before go on working: they ask after every turn.
    op.add_column("sessions", sa.Column("micro_mark", sa.Text(), nullable=True))


def downgrade() -> None:
    op.drop_column("sessions", "micro_mark")
