"""The triggers that note new rows for the index. A migration made them; should they have gone with
a table that was copied, a rebuild makes them again."""

from __future__ import annotations

from sqlalchemy import Connection
from sqlalchemy import text as sql

NAMES = ("search_message_added", "search_summary_added")

_SQLITE = (
    "CREATE TRIGGER IF NOT EXISTS search_message_added AFTER INSERT ON messages"
    " WHEN NEW.kind = 'message'"
    " BEGIN INSERT OR IGNORE INTO search_pending (number) VALUES (NEW.id); END",
    "CREATE TRIGGER IF NOT EXISTS search_summary_added AFTER INSERT ON summaries"
    " BEGIN INSERT OR IGNORE INTO search_pending (number) VALUES (-NEW.id); END",
)
_POSTGRESQL = (
    "CREATE OR REPLACE TRIGGER search_message_added AFTER INSERT ON messages"
    " REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION search_note_messages()",
    "CREATE OR REPLACE TRIGGER search_summary_added AFTER INSERT ON summaries"
    " REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION search_note_summaries()",
)
_ARE_THERE = {
    "sqlite": "SELECT count(*) FROM sqlite_master WHERE type = 'trigger' AND name IN (:a, :b)",
    "postgresql": (
        "SELECT count(DISTINCT tgname) FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid"
        " WHERE pg_table_is_visible(pg_class.oid) AND tgenabled <> 'D' AND tgname IN (:a, :b)"
    ),
}


def are_there(connection: Connection) -> bool:
    """Whether new rows are noted."""
    message, summary = NAMES
    count = connection.execute(
        sql(_ARE_THERE[connection.dialect.name]), {"a": message, "b": summary}
    ).scalar_one()
    return bool(count == len(NAMES))


def make_again(connection: Connection) -> None:
    """Make those that are missing."""
    if not are_there(connection):
        for statement in _SQLITE if connection.dialect.name == "sqlite" else _POSTGRESQL:
            connection.exec_driver_sql(statement)
