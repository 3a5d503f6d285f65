"""Somebody at the command line, and the database that they look into."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from storage import guards
from storage.conversations import sessions
from storage.engine import Database, open_database
from storage.guards import GuardName
from tests.support.model.server import ModelServer
from tests.support.programs.command_line import Ended, invoke

DESK = {"protect_last_n": 8, "threshold_tokens": 4000}
"""Settings under which sixteen turns of the airline desk have a middle of about 5,000 tokens."""


class Person:
    """Types commands with a configuration of their own, whose summariser is `server`, or the
    built-in one."""

    def __init__(self, folder: Path, server: ModelServer | None = None, **compression: Any) -> None:
        self.document: dict[str, Any] = {"compression": {**DESK, **compression}}
        if server is not None:
            self.summarises_with(base_url=server.base_url, model="small")
        self.file = folder / "person.yaml"
        self.save()

    def summarises_with(self, **model: Any) -> None:
        self.document["auxiliary"] = {"compression": model}

    def save(self) -> None:
        self.file.write_text(yaml.safe_dump(self.document))

    def types(self, *arguments: str) -> Ended:
        return invoke("--config", str(self.file), *arguments)


@contextmanager
def stored(url: str) -> Iterator[Database]:
    """Yield a database whose tables are made."""
    database = open_database(url)
    try:
        yield database
    finally:
        database.close()


def hold(url: str, session_id: str, name: GuardName, **facts: Any) -> None:
    """Set a guard of a session of owner `local`."""
    with stored(url) as database, database.write() as connection:
        record = sessions.find(connection, owner="local", session_id=session_id)
        assert record is not None
        guards.put(connection, database, record.key, name, **facts)
