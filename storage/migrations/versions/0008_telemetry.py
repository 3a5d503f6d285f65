"""Telemetry: figures that outlive the records they were counted from, and what caused a job."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "totals",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("labels", sa.Text(), nullable=False),
        sa.Column("value", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", "labels"),
    )
    # Nullable, so that programs of the version before go on working: their jobs have no cause.
    op.add_column("jobs", sa.Column("correlation", sa.Text(), nullable=True))
    # What is counted up to a number must never see that number again. PostgreSQL never gives one
    # twice; SQLite does after the deletion of the highest, unless the table says otherwise.
    if op.get_bind().dialect.name == "sqlite":
        _remake_attempts(sqlite_autoincrement=True)


def downgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        _remake_attempts(sqlite_autoincrement=False)
    op.drop_column("jobs", "correlation")
    op.drop_table("totals")


def _remake_attempts(*, sqlite_autoincrement: bool) -> None:
    with op.batch_alter_table(
        "attempts", recreate="always", table_kwargs={"sqlite_autoincrement": sqlite_autoincrement}
    ):
        pass
