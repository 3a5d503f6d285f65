"""Sessions in a `state.db` of Hermes Agent, which may run meanwhile: nothing is written there."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from producers.importing.files import ImportRefused
from producers.importing.lines import hermes_session
from producers.importing.source import BadRow, SourceSession

_BUSY_SECONDS = 30
_BY_START = "SELECT id FROM sessions ORDER BY started_at, id"
_BY_ID = "SELECT id FROM sessions ORDER BY id"


class StateFile:
    """The sessions of a file. Each is read in one short transaction, so Hermes Agent goes on."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self._path = path
        self._connection = connection
        self._sessions = self._columns("sessions")
        messages = self._columns("messages")
        if "id" not in self._sessions or not {"session_id", "role", "content"} <= messages:
            raise ImportRefused(f"{path}: is a SQLite file, but no state.db of Hermes Agent")
        self._has_prompts = bool(self._columns("system_prompts"))

    def ids(self) -> list[str]:
        """Ids of all sessions, those that began first in front."""
        dated = "started_at" in self._sessions
        return [row[0] for row in self._rows(_BY_START if dated else _BY_ID)]

    def read(self, session_id: str) -> SourceSession | BadRow | None:
        """One session; None where it was deleted meanwhile."""
        place = f"{self._path.name}, session {session_id}"
        self._connection.execute("BEGIN")
        try:
            found = self._rows("SELECT * FROM sessions WHERE id = ?", session_id)
            if not found:
                return None
            facts = dict(found[0])
            rows = self._rows("SELECT * FROM messages WHERE session_id = ? ORDER BY id", session_id)
            prompt = self._prompt(facts)
        finally:
            self._connection.execute("ROLLBACK")
        return hermes_session(
            facts, [dict(row) for row in rows], session_id=session_id, place=place, prompt=prompt
        )

    def _prompt(self, facts: dict[str, Any]) -> str | None:
        wanted = facts.get("system_prompt_hash")
        if not self._has_prompts or not wanted:
            return None
        found = self._rows("SELECT prompt FROM system_prompts WHERE hash = ?", wanted)
        return found[0][0] if found and isinstance(found[0][0], str) else None

    def _columns(self, table: str) -> set[str]:
        return {row[0] for row in self._rows("SELECT name FROM pragma_table_info(?)", table)}

    def _rows(self, statement: str, *given: Any) -> list[sqlite3.Row]:
        try:
            return self._connection.execute(statement, given).fetchall()
        except sqlite3.Error as error:
            raise ImportRefused(f"{self._path}: cannot be read ({error})") from error


@contextmanager
def open_state(path: Path) -> Iterator[StateFile]:
    """Open a `state.db` for reading. Raises `ImportRefused` where it is none."""
    connection = _connect(path)
    try:
        connection.row_factory = sqlite3.Row
        # Text that is no UTF-8 must not end the import of all the others.
        connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        yield StateFile(path, connection)
    finally:
        connection.close()


def _connect(path: Path) -> sqlite3.Connection:
    address = f"file:{quote(str(path.resolve()))}?mode=ro"
    try:
        connection = sqlite3.connect(address, uri=True, timeout=_BUSY_SECONDS, isolation_level=None)
        try:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.OperationalError:
            connection.close()
            if Path(f"{path}-wal").exists():
                raise
            # A log that nobody may make: the file is whole as it stands, and nobody has it open.
            connection = sqlite3.connect(f"{address}&immutable=1", uri=True, isolation_level=None)
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.Error as error:
        raise ImportRefused(f"{path}: cannot be read ({error})") from error
    return connection
