"""Run by Alembic with a connection that `storage.migrate` has opened."""

from __future__ import annotations

from alembic import context

from storage.models import Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    # SQLite cannot change a column in place; tables are copied instead.
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
