"""Count what a database is made to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, event

from storage.engine import Database


@dataclass(slots=True)
class Work:
    """What was run: how many statements of each text, and how many rows were written in all."""

    texts: Counter[str] = field(default_factory=Counter)
    rows_written: int = 0

    @property
    def statements(self) -> int:
        return self.texts.total()

    @property
    def writes(self) -> Counter[str]:
        """How many statements wrote to each table."""
        tables: Counter[str] = Counter()
        for text, times in self.texts.items():
            match text.split():
                case ["INSERT" | "DELETE", _, table, *_] | ["UPDATE", table, *_]:
                    tables[table] += times
        return tables


@contextmanager
def counted(database: Database) -> Iterator[Work]:
    """Count what runs on `database` until the block ends, beginnings of transactions left out."""
    work = Work()
    changes_before: dict[Connection, int] = {}

    def begun(connection: Connection) -> None:
        changes_before[connection] = _total_changes(connection)

    def ended(connection: Connection) -> None:
        work.rows_written += _total_changes(connection) - changes_before.pop(connection)

    def ran(_connection: Any, cursor: Any, text: str, *_more: Any) -> None:
        if text.startswith("BEGIN"):
            return
        work.texts[text] += 1
        if database.dialect == "postgresql" and not text.startswith("SELECT"):
            work.rows_written += max(cursor.rowcount, 0)

    listeners: dict[str, Any] = {"after_cursor_execute": ran}
    if database.dialect == "sqlite":
        # It counts the rows of a statement that returns some only when those are fetched.
        listeners |= {"begin": begun, "commit": ended, "rollback": ended}
    for name, listener in listeners.items():
        event.listen(database.engine, name, listener)
    try:
        yield work
    finally:
        for name, listener in listeners.items():
            event.remove(database.engine, name, listener)


def _total_changes(connection: Connection) -> int:
    driver: Any = connection.connection.driver_connection
    return int(driver.total_changes)
