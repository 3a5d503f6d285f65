"""Count what a database is made to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import event

from storage.engine import Database


@dataclass(slots=True)
class Work:
    """Statements that were run and rows that they changed, in all and by kind and table."""

    statements: int = 0
    rows_written: int = 0
    written: dict[str, int] = field(default_factory=dict)
    """Rows by the statement's first words, such as `INSERT INTO messages`."""
    texts: list[str] = field(default_factory=list)


@contextmanager
def counted(database: Database) -> Iterator[Work]:
    """Count what runs on `database` until the block ends."""
    work = Work()

    def after(_connection: Any, cursor: Any, text: str, _parameters: Any, *_more: Any) -> None:
        work.statements += 1
        work.texts.append(text)
        words = text.split()
        if words[0] in ("INSERT", "UPDATE", "DELETE", "WITH"):
            rows = max(cursor.rowcount, 0)
            target = " ".join(words[: 2 if words[0] == "UPDATE" else 3])
            work.rows_written += rows
            work.written[target] = work.written.get(target, 0) + rows

    event.listen(database.engine, "after_cursor_execute", after)
    try:
        yield work
    finally:
        event.remove(database.engine, "after_cursor_execute", after)
