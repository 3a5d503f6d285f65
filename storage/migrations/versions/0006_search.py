"""Search: what waits to be indexed, noted by the database itself, and which indexes there are."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

# The indexes themselves are derived and made, dropped and made anew at run time.
_SQLITE = (
    "CREATE TRIGGER search_message_added AFTER INSERT ON messages WHEN NEW.kind = 'message'"
    " BEGIN INSERT OR IGNORE INTO search_pending (number) VALUES (NEW.id); END",
    "CREATE TRIGGER search_summary_added AFTER INSERT ON summaries"
    " BEGIN INSERT OR IGNORE INTO search_pending (number) VALUES (-NEW.id); END",
)
_POSTGRESQL = (
    "CREATE FUNCTION search_note_messages() RETURNS trigger LANGUAGE plpgsql AS $$"
    " BEGIN INSERT INTO search_pending (number)"
    " SELECT id FROM added WHERE kind = 'message' ON CONFLICT DO NOTHING; RETURN NULL; END $$",
    "CREATE TRIGGER search_message_added AFTER INSERT ON messages"
    " REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION search_note_messages()",
    "CREATE FUNCTION search_note_summaries() RETURNS trigger LANGUAGE plpgsql AS $$"
    " BEGIN INSERT INTO search_pending (number)"
    " SELECT -id FROM added ON CONFLICT DO NOTHING; RETURN NULL; END $$",
    "CREATE TRIGGER search_summary_added AFTER INSERT ON summaries"
    " REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION search_note_summaries()",
)
_SQLITE_BACK = (
    "DROP TRIGGER search_message_added",
    "DROP TRIGGER search_summary_added",
)
_POSTGRESQL_BACK = (
    "DROP TRIGGER search_message_added ON messages",
    "DROP TRIGGER search_summary_added ON summaries",
    "DROP FUNCTION search_note_messages()",
    "DROP FUNCTION search_note_summaries()",
)


def upgrade() -> None:
    op.create_table(
        "search_pending",
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("number"),
    )
    op.create_table(
        "search_generations",
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("standing", sa.Text(), nullable=False),
        sa.Column("rules", sa.Text(), nullable=False),
        sa.Column("upto", sa.BigInteger(), nullable=False),
        sa.Column("done", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("number"),
    )
    op.execute("INSERT INTO search_pending (number) SELECT id FROM messages WHERE kind = 'message'")
    op.execute("INSERT INTO search_pending (number) SELECT -id FROM summaries")
    for statement in _SQLITE if _on_sqlite() else _POSTGRESQL:
        op.execute(statement)


def downgrade() -> None:
    for statement in _SQLITE_BACK if _on_sqlite() else _POSTGRESQL_BACK:
        op.execute(statement)
    numbers = op.get_bind().execute(sa.text("SELECT number FROM search_generations")).scalars()
    for number in numbers.all():
        names = ("search_words", "search_pieces") if _on_sqlite() else ("search_documents",)
        for name in names:
            op.execute(f"DROP TABLE IF EXISTS {name}_{number:d}")
    op.drop_table("search_generations")
    op.drop_table("search_pending")


def _on_sqlite() -> bool:
    return op.get_bind().dialect.name == "sqlite"
