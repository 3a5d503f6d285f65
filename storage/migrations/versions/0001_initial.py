"""Every table of the first release."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_TABLES = (
    "sessions",
    "system_prompts",
    "summaries",
    "messages",
    "turn_events",
    "cursors",
    "imported_sessions",
    "jobs",
    "attempts",
    "answers",
    "guards",
    "signals",
    "endpoints",
    "totals",
    "audit",
    "bulk_runs",
    "queue_states",
    "schedule_slots",
    "search_generations",
    "search_pending",
    "bulk_sessions",
)
"""In the order in which they are made: a table refers only to earlier ones."""

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
    _make_conversations()
    _make_work()
    _make_operations()
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
    for table in reversed(_TABLES):
        op.drop_table(table)


def _make_conversations() -> None:
    op.create_table(
        "sessions",
        _key("key", autoincrement=True),
        _text("owner"),
        _text("id"),
        _text("source"),
        _text("chat_id", nullable=True),
        _text("thread_id", server_default=""),
        _text("title", nullable=True),
        _text("model", server_default=""),
        _text("model_config", nullable=True),
        _integer("context_window", nullable=True),
        _integer("reserved_output", server_default="0"),
        _integer("declared_window", nullable=True),
        _text("managed_by", nullable=True),
        _text("calibration", nullable=True),
        _key("parent_key", nullable=True),
        _text("link", nullable=True),
        _integer("revision", server_default="0"),
        _integer("next_position", server_default="0"),
        _integer("turns", server_default="0"),
        _flag("turn_open", server_default="0"),
        _integer("decided_turns", nullable=True),
        _integer("live_messages", server_default="0"),
        _integer("live_tokens", server_default="0"),
        _integer("unabsorbed_tokens", server_default="0"),
        _integer("checked_tokens", nullable=True, server_default="0"),
        _integer("passes", server_default="0"),
        _integer("tokens_saved", server_default="0"),
        _integer("started_at"),
        _integer("active_at"),
        _integer("idle_since", nullable=True),
        _integer("ended_at", nullable=True),
        _integer("archived_at", nullable=True),
        sa.ForeignKeyConstraint(["parent_key"], ["sessions.key"]),
        sa.PrimaryKeyConstraint("key"),
        sa.UniqueConstraint("owner", "id", name="uq_sessions_owner_id"),
    )
    _index("ix_sessions_active_at", "sessions", ["active_at"])
    _index("ix_sessions_ended", "sessions", ["ended_at", "key"], where="ended_at IS NOT NULL")
    _index(
        "ix_sessions_idle",
        "sessions",
        ["idle_since", "key"],
        where="idle_since IS NOT NULL AND ended_at IS NULL AND archived_at IS NULL",
    )
    _index("ix_sessions_undecided", "sessions", ["key"], where="decided_turns < turns")
    _index(
        "uq_sessions_chat",
        "sessions",
        ["owner", "source", "chat_id", "thread_id"],
        where="chat_id IS NOT NULL AND ended_at IS NULL",
        unique=True,
    )
    _index(
        "uq_sessions_title", "sessions", ["owner", "title"], where="title IS NOT NULL", unique=True
    )
    op.create_table(
        "system_prompts",
        _key("session_key"),
        _text("prompt"),
        sa.ForeignKeyConstraint(["session_key"], ["sessions.key"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("session_key"),
    )
    op.create_table(
        "summaries",
        _key("id", autoincrement=True),
        _key("session_key"),
        _text("kind"),
        _text("status"),
        _text("text"),
        _text("verbatim", server_default=""),
        _integer("tokens"),
        _integer("first_position"),
        _integer("last_position"),
        _key("replaces", nullable=True),
        _integer("cursor_before"),
        _text("template"),
        _text("model"),
        _integer("created_at"),
        sa.ForeignKeyConstraint(["replaces"], ["summaries.id"]),
        sa.ForeignKeyConstraint(["session_key"], ["sessions.key"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,  # an id is never given twice
    )
    _index("ix_summaries_live", "summaries", ["session_key", "id"], where="status = 'live'")
    _index(
        "ix_summaries_placeholders",
        "summaries",
        ["created_at", "session_key"],
        where="status = 'live' AND kind = 'placeholder'",
    )
    op.create_table(
        "messages",
        _key("id", autoincrement=True),
        _key("session_key"),
        _integer("position"),
        _text("kind", server_default="message"),
        _text("role", nullable=True),
        _text("origin", nullable=True),
        _flag("opens_turn", server_default="0"),
        _integer("tokens"),
        _flag("active", server_default="1"),
        _flag("compacted", server_default="0"),
        _key("absorbed_by", nullable=True),
        _key("summary_id", nullable=True),
        _text("call_ids", nullable=True),
        _text("answer_ids", nullable=True),
        _text("content", nullable=True),
        _text("fields", nullable=True),
        _text("pruned", nullable=True),
        _integer("spared_tokens", nullable=True),
        _integer("same_as", nullable=True),
        _integer("created_at"),
        sa.ForeignKeyConstraint(["absorbed_by"], ["summaries.id"]),
        sa.ForeignKeyConstraint(["session_key"], ["sessions.key"], ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["summary_id"], ["summaries.id"]),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,  # an id is never given twice
    )
    _index("ix_messages_absorbed_by", "messages", ["absorbed_by"], where="absorbed_by IS NOT NULL")
    _index("ix_messages_live", "messages", ["session_key", "position"], where="active = 1")
    _index(
        "ix_messages_live_calls",
        "messages",
        ["session_key", "position"],
        where="active = 1 AND call_ids IS NOT NULL",
    )
    _index(
        "ix_messages_markers",
        "messages",
        ["session_key"],
        where="active = 1 AND summary_id IS NOT NULL",
    )
    _index(
        "ix_messages_pruned", "messages", ["session_key", "position"], where="pruned IS NOT NULL"
    )
    # After ix_messages_live: of two indexes that serve alike SQLite takes the newer one.
    _index(
        "ix_messages_agent",
        "messages",
        ["session_key", "position"],
        where="active = 1 AND (role = 'assistant' OR role = 'tool' OR origin = 'runtime'"
        " OR origin = 'tool')",
    )
    _index("ix_messages_turns", "messages", ["session_key", "position"], where="opens_turn = 1")
    _index(
        "uq_messages_position",
        "messages",
        ["session_key", "position"],
        where="kind = 'message'",
        unique=True,
    )
    op.create_table(
        "turn_events",
        _key("id", autoincrement=True),
        _key("session_key"),
        _text("event_id"),
        _text("digest"),
        _integer("turn", nullable=True),
        _integer("first_position"),
        _integer("rows"),
        _text("usage", nullable=True),
        _integer("view_tokens", nullable=True),
        _integer("revision"),
        _integer("created_at"),
        sa.ForeignKeyConstraint(["session_key"], ["sessions.key"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("session_key", "event_id", name="uq_turn_events_event"),
    )
    _index("ix_turn_events_usage", "turn_events", ["session_key", "id"], where="usage IS NOT NULL")
    op.create_table(
        "cursors",
        _key("session_key"),
        _text("name"),
        _integer("position"),
        sa.ForeignKeyConstraint(["session_key"], ["sessions.key"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("session_key", "name"),
    )
    op.create_table(
        "imported_sessions",
        _key("session_key"),
        _text("origin"),
        _integer("rows"),
        _integer("last_row"),
        _text("digest"),
        _integer("updated_at"),
        sa.ForeignKeyConstraint(["session_key"], ["sessions.key"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("session_key"),
    )


def _make_work() -> None:
    op.create_table(
        "jobs",
        _key("id", autoincrement=True),
        _key("session_key"),
        _text("owner", nullable=True),
        _text("kind"),
        _text("state", server_default="due"),
        _text("queue"),
        _text("trigger"),
        _flag("priority", server_default="0"),
        _text("options", nullable=True),
        _integer("run_at"),
        _integer("attempt", server_default="0"),
        _integer("tries", server_default="0"),
        _integer("fence", server_default="0"),
        _text("lease_owner", nullable=True),
        _integer("lease_until", nullable=True),
        _integer("deadline_at", nullable=True),
        _flag("again", server_default="0"),
        _text("next_queue", nullable=True),
        _text("next_trigger", nullable=True),
        _flag("next_priority", nullable=True),
        _text("next_options", nullable=True),
        _integer("notified_at", nullable=True),
        _text("correlation", nullable=True),
        _text("reason", nullable=True),
        _text("trace", nullable=True),
        _integer("failed_first_at", nullable=True),
        _integer("failed_last_at", nullable=True),
        _integer("created_at"),
        _integer("updated_at"),
        sa.ForeignKeyConstraint(["session_key"], ["sessions.key"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,  # an id is never given twice
    )
    _index(
        "ix_jobs_bulk",
        "jobs",
        ["owner", "run_at", "id"],
        where="state = 'due' AND queue = 'recompact' AND notified_at IS NULL",
    )
    _index("ix_jobs_dead", "jobs", ["id"], where="state = 'dead'")
    _index("ix_jobs_failed", "jobs", ["session_key", "kind"], where="failed_last_at IS NOT NULL")
    _index("ix_jobs_lease", "jobs", ["lease_until"], where="state = 'running'")
    _index(
        "ix_jobs_notifiable",
        "jobs",
        ["run_at"],
        where="state = 'due' AND (queue <> 'recompact' OR notified_at IS NOT NULL)",
    )
    _index(
        "ix_jobs_notified",
        "jobs",
        ["queue", "owner", "priority", "run_at", "id"],
        where="state = 'due' AND notified_at IS NOT NULL",
    )
    _index(
        "uq_jobs_open",
        "jobs",
        ["session_key", "kind"],
        where="state IN ('due', 'running')",
        unique=True,
    )
    _index("uq_jobs_running", "jobs", ["session_key"], where="state = 'running'", unique=True)
    op.create_table(
        "attempts",
        _key("id", autoincrement=True),
        _key("session_key"),
        _integer("job_id", nullable=True),
        _text("kind"),
        _text("trigger"),
        _text("outcome"),
        _text("error_class", nullable=True),
        _integer("summary_id", nullable=True),
        _integer("messages_before"),
        _integer("messages_after"),
        _integer("tokens_before"),
        _integer("tokens_after"),
        _integer("absorbed_tokens", server_default="0"),
        _integer("summary_tokens", server_default="0"),
        _integer("threshold_tokens", server_default="0"),
        _integer("cursor"),
        _integer("passes"),
        _integer("tokens_saved"),
        _text("model", server_default=""),
        _integer("requests", server_default="0"),
        _integer("prompt_tokens", nullable=True),
        _integer("completion_tokens", nullable=True),
        _integer("total_ms", server_default="0"),
        _integer("model_ms", server_default="0"),
        _integer("created_at"),
        sa.ForeignKeyConstraint(["session_key"], ["sessions.key"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,  # an id is never given twice
    )
    _index("ix_attempts_session", "attempts", ["session_key", "id"])
    op.create_table(
        "answers",
        _key("session_key"),
        _text("question"),
        _text("text"),
        _text("model"),
        _integer("prompt_tokens", nullable=True),
        _integer("completion_tokens", nullable=True),
        _integer("model_ms"),
        _integer("created_at"),
        sa.ForeignKeyConstraint(["session_key"], ["sessions.key"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("session_key", "question"),
    )
    _index("ix_answers_created_at", "answers", ["created_at"])
    op.create_table(
        "guards",
        _key("session_key"),
        _text("name"),
        _integer("count", server_default="0"),
        _integer("subject", nullable=True),
        _integer("until_at", nullable=True),
        _text("detail", nullable=True),
        _integer("updated_at"),
        sa.ForeignKeyConstraint(["session_key"], ["sessions.key"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("session_key", "name"),
    )
    _index("ix_guards_cooldown", "guards", ["until_at", "session_key"], where="name = 'cooldown'")
    op.create_table(
        "signals",
        _key("id", autoincrement=True),
        _key("session_key"),
        _text("owner"),
        _text("kind"),
        _flag("quiet", server_default="0"),
        _text("facts"),
        _integer("created_at"),
        sa.ForeignKeyConstraint(["session_key"], ["sessions.key"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,  # an id is never given twice
    )
    _index("ix_signals_owner", "signals", ["owner", "id"])
    _index("ix_signals_session", "signals", ["session_key", "id"])
    op.create_table(
        "endpoints",
        _text("name"),
        _integer("failures", server_default="0"),
        _integer("open_ms", server_default="0"),
        _integer("open_until", nullable=True),
        _integer("probe_until", nullable=True),
        _text("error_class", nullable=True),
        _integer("answered_at", nullable=True),
        _integer("minute", server_default="0"),
        _integer("requests", server_default="0"),
        _integer("tokens", server_default="0"),
        _integer("updated_at"),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "totals",
        _text("name"),
        _text("labels"),
        _integer("value"),
        sa.PrimaryKeyConstraint("name", "labels"),
    )


def _make_operations() -> None:
    op.create_table(
        "audit",
        _key("id", autoincrement=True),
        _text("owner", nullable=True),
        _text("session", nullable=True),
        _text("actor"),
        _text("action"),
        _text("facts", server_default="{}"),
        _integer("created_at"),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,  # an id is never given twice
    )
    _index("ix_audit_owner", "audit", ["owner", "id"])
    _index("ix_audit_session", "audit", ["session", "id"])
    op.create_table(
        "bulk_runs",
        _key("id", autoincrement=True),
        _text("owner", nullable=True),
        _text("actor"),
        _text("filters"),
        _text("state"),
        _integer("at_once"),
        _integer("pace_ms", server_default="0"),
        _integer("next_at", server_default="0"),
        _integer("sessions"),
        _integer("created_at"),
        _integer("updated_at"),
        _integer("ended_at", nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,  # an id is never given twice
    )
    _index("uq_bulk_runs_running", "bulk_runs", ["state"], where="state = 'running'", unique=True)
    op.create_table(
        "queue_states",
        _text("name"),
        _integer("paused_at", nullable=True),
        _text("reason", server_default=""),
        _text("last_owner", nullable=True),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "schedule_slots",
        _text("schedule"),
        _integer("slot", autoincrement=False),
        _integer("taken_at"),
        sa.PrimaryKeyConstraint("schedule", "slot"),
    )
    op.create_table(
        "search_generations",
        _integer("number", autoincrement=False),
        _text("standing"),
        _text("rules"),
        _integer("upto"),
        _integer("done"),
        _integer("created_at"),
        sa.PrimaryKeyConstraint("number"),
    )
    op.create_table(
        "search_pending",
        _integer("number", autoincrement=False),
        sa.PrimaryKeyConstraint("number"),
    )
    op.create_table(
        "bulk_sessions",
        _key("run_id"),
        _key("session_key"),
        _integer("place"),
        _text("state"),
        _integer("job_id", nullable=True),
        _integer("after_attempt", server_default="0"),
        _text("outcome", nullable=True),
        _text("error_class", nullable=True),
        _integer("tokens_before", nullable=True),
        _integer("tokens_after", nullable=True),
        _integer("requests", server_default="0"),
        _integer("prompt_tokens", server_default="0"),
        _integer("completion_tokens", server_default="0"),
        _integer("settled_at", nullable=True),
        sa.ForeignKeyConstraint(["run_id"], ["bulk_runs.id"], ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["session_key"], ["sessions.key"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "session_key"),
    )
    _index("ix_bulk_sessions_asked", "bulk_sessions", ["run_id", "place"], where="state = 'asked'")
    _index("ix_bulk_sessions_session", "bulk_sessions", ["session_key"])
    _index(
        "ix_bulk_sessions_waiting", "bulk_sessions", ["run_id", "place"], where="state = 'waiting'"
    )


def _on_sqlite() -> bool:
    return op.get_bind().dialect.name == "sqlite"


def _text(name: str, **facts: Any) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), **{"nullable": False, **facts})


def _integer(name: str, **facts: Any) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), **{"nullable": False, **facts})


def _flag(name: str, **facts: Any) -> sa.Column[int]:
    return sa.Column(name, sa.SmallInteger(), **{"nullable": False, **facts})


def _key(name: str, **facts: Any) -> sa.Column[int]:
    # SQLite gives ids by itself only to a column of its own integer type.
    key = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    return sa.Column(name, key, **{"nullable": False, **facts})


def _index(
    name: str, table: str, columns: list[Any], *, where: str | None = None, unique: bool = False
) -> None:
    predicate = None if where is None else sa.text(where)
    op.create_index(
        name,
        table,
        columns,
        unique=unique,
        sqlite_where=predicate,
        postgresql_where=predicate,
    )
