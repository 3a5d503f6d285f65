"""A version of the program with one revision more, so that tables can be older than it needs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from storage import migrate

_LATER = """
from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "later"
down_revision = "%s"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table("extras", sa.Column("name", sa.Text(), primary_key=True))
    op.add_column("sessions", sa.Column("extra", sa.Text(), nullable=True))
    with op.batch_alter_table("summaries") as batch:
        batch.alter_column("model", existing_type=sa.Text(), new_column_name="model_name")


def downgrade() -> None:
    with op.batch_alter_table("summaries") as batch:
        batch.alter_column("model_name", existing_type=sa.Text(), new_column_name="model")
    op.drop_column("sessions", "extra")
    op.drop_table("extras")
"""
"""A table, a column, and a change for which SQLite copies a table."""


def install_later_revision(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Copy the migrations to `folder`, add a revision, and let the program use them.

    Returns the name of the new revision.
    """
    shutil.copytree(Path(migrate.__file__).parent / "migrations", folder)
    (folder / "versions" / "later.py").write_text(_LATER % migrate.head())
    monkeypatch.setattr(migrate, "_FOLDER", folder)
    return "later"
