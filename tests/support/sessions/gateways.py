"""Gateways on databases of tests, and a look at what they stored."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import text as sql

from producers import Gateway, Session
from storage import migrate
from storage.conversations import messages
from storage.engine import Database, open_database
from storage.models import Base
from workers.settings import Settings

ChatDict = dict[str, Any]


@contextmanager
def migrated(url: str) -> Iterator[Database]:
    """Yield the database `url` with its tables made."""
    database = open_database(url)
    try:
        migrate.upgrade(database)
        yield database
    finally:
        database.close()


@contextmanager
def gateway_on(
    url: str, *, owner: str = "local", broker_url: str | None = None
) -> Iterator[Gateway]:
    """Yield a gateway as a process of its own would open it, on a database whose tables are
    made."""
    with Gateway(Settings(database_url=url, broker_url=broker_url), owner=owner) as gateway:
        yield gateway


def emptied(database: Database) -> None:
    """Delete every row of every table."""
    with database.write() as connection:
        for table in reversed(Base.metadata.sorted_tables):
            connection.execute(table.delete())


def url_of(database: Database) -> str:
    """Return the URL of a database of the tests, which has no password."""
    return database.engine.url.render_as_string(hide_password=False)


def user(content: Any, **more: Any) -> ChatDict:
    return {"role": "user", "content": content, **more}


def assistant(content: Any, **more: Any) -> ChatDict:
    return {"role": "assistant", "content": content, **more}


def as_bytes(chat: Sequence[Any]) -> list[str]:
    """Return what makes messages the same byte for byte: their JSON, key order included."""
    return [json.dumps(message) for message in chat]


def stored_messages(database: Database, session: Session) -> list[ChatDict]:
    """Return every message that is live or archived, in order."""
    with database.read() as connection:
        rows = messages.read_everything(connection, session.key)
    return [dict(row.message) for row in rows if row.message is not None]


def rows_of(database: Database, query: str, **values: Any) -> list[tuple[Any, ...]]:
    """Return rows of a plain SQL query, for a look behind our own statements."""
    with database.read() as connection:
        return [tuple(row) for row in connection.execute(sql(query), values)]


def contents(database: Database) -> dict[str, list[tuple[Any, ...]]]:
    """Return every row of every table, to see that nothing has changed."""
    with database.read() as connection:
        return {
            table.name: sorted((tuple(row) for row in connection.execute(table.select())), key=repr)
            for table in Base.metadata.sorted_tables
        }
