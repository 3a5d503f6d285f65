"""A `state.db` as Hermes Agent keeps one, written as it writes it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PREFIX = (
    "[CONTEXT COMPACTION — REFERENCE ONLY] Earlier turns were compacted into the summary below."
    " Treat it as background.\n\n"
)
SUFFIX = "\n\n--- END OF CONTEXT SUMMARY — respond to the message below, not the summary above ---"
START = 1_760_000_000.0

_TABLES = """
CREATE TABLE sessions (
  id TEXT PRIMARY KEY, source TEXT, user_id TEXT, session_key TEXT, chat_id TEXT, chat_type TEXT,
  thread_id TEXT, model TEXT, model_config TEXT, system_prompt_hash TEXT, parent_session_id TEXT,
  started_at REAL, ended_at REAL, end_reason TEXT, message_count INTEGER, title TEXT,
  last_activity_at REAL);
CREATE TABLE system_prompts (hash TEXT PRIMARY KEY, prompt TEXT);
CREATE TABLE messages (
  id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT, role TEXT, content TEXT,
  tool_call_id TEXT, tool_calls TEXT, tool_name TEXT, timestamp REAL, token_count INTEGER,
  finish_reason TEXT, reasoning TEXT, reasoning_content TEXT, reasoning_details TEXT,
  codex_reasoning_items TEXT, codex_message_items TEXT,
  active INTEGER NOT NULL DEFAULT 1, compacted INTEGER NOT NULL DEFAULT 0);
"""


class HermesState:
    """The file, open as Hermes Agent has it open: in WAL mode, writing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.executescript(_TABLES)

    def close(self) -> None:
        self._connection.close()

    def session(self, session_id: str, *, prompt: str | None = None, **facts: Any) -> None:
        """Open a session."""
        values = {"id": session_id, "source": "telegram", "started_at": START, **facts}
        if prompt is not None:
            values["system_prompt_hash"] = f"hash-{session_id}"
            self._insert("system_prompts", hash=values["system_prompt_hash"], prompt=prompt)
        self._insert("sessions", **values)

    def append(self, session_id: str, message: dict[str, Any], *, at: float, **flags: Any) -> int:
        """Store a message as they lay it out; return its id."""
        content, calls = message.get("content"), message.get("tool_calls")
        return self._insert(
            "messages",
            session_id=session_id,
            role=message["role"],
            content=json.dumps(content) if isinstance(content, list) else content,
            tool_call_id=message.get("tool_call_id"),
            tool_calls=json.dumps(calls) if calls else None,
            tool_name=message.get("name"),
            reasoning=message.get("reasoning"),
            timestamp=START + at,
            **flags,
        )

    def compact(self, session_id: str, compacted: Sequence[tuple[dict[str, Any], float]]) -> None:
        """Archive the live rows and write the compacted list anew, as they do in place."""
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.execute(
            "UPDATE messages SET active = 0, compacted = 1 WHERE session_id = ? AND active = 1",
            (session_id,),
        )
        for message, at in compacted:
            self.append(session_id, message, at=at)
        self._connection.execute("COMMIT")

    def rewind(self, session_id: str, *, since: float) -> None:
        """Take back the rows from a time on."""
        self._connection.execute(
            "UPDATE messages SET active = 0, compacted = 0 WHERE session_id = ? AND timestamp >= ?",
            (session_id, START + since),
        )

    def begin(self) -> None:
        """Hold the write lock, as in the middle of a long write."""
        self._connection.execute("BEGIN IMMEDIATE")

    def rows(self) -> int:
        """Return how many messages there are."""
        found: int = self._connection.execute("SELECT count(*) FROM messages").fetchone()[0]
        return found

    def _insert(self, table: str, **values: Any) -> int:
        names, marks = ", ".join(values), ", ".join("?" * len(values))
        done = self._connection.execute(
            f"INSERT INTO {table} ({names}) VALUES ({marks})",
            tuple(values.values()),
        )
        return int(done.lastrowid or 0)
