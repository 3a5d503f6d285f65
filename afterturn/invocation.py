"""What every command works with: settings, database, session, and the person who typed it."""

from __future__ import annotations

import getpass
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer
from sqlalchemy import Connection, make_url, select

from afterturn.exits import CommandError, Exit
from producers.gateway import Gateway
from storage import migrate
from storage.conversations import sessions
from storage.conversations.sessions import SessionRecord
from storage.engine import Database, open_database
from storage.errors import SessionNotFound
from workers.settings import Settings, SettingsSource, load_settings
from workers.settings.urls import database_url, default_database_url, masked_url


@dataclass(frozen=True, slots=True)
class Invocation:
    """The options in front of the command. `config` is None for the usual places."""

    config: Path | None
    owner: str

    @classmethod
    def of(cls, context: typer.Context) -> Invocation:
        """Return the invocation that a command belongs to."""
        found: Invocation = context.obj
        return found

    def stated_owner(self, context: typer.Context) -> str | None:
        """Return the owner if --owner was given in front of the command, else None."""
        root: Any = context.find_root()
        return None if root.get_parameter_source("owner").name == "DEFAULT" else self.owner

    def settings(self) -> Settings:
        """Return the present settings. Raises `SettingsError`."""
        return load_settings(self.config)

    def source(self) -> SettingsSource:
        """Return settings that follow the file. Raises `SettingsError`."""
        return SettingsSource.following(self.config)

    @contextmanager
    def database(self, *, create: bool = False) -> Iterator[tuple[Database, Settings]]:
        """Open the database with usable tables; gives the settings that name it too.

        A missing SQLite file is created only with `create`: its name may be mistyped.
        Raises `SettingsError`, `StorageError` and `NoDatabaseFile`.
        """
        settings = self.settings()
        if not create and missing_file(settings.database_url) is not None:
            raise NoDatabaseFile(settings.database_url)
        database = open_database(settings.database_url)
        try:
            migrate.ensure(database)
            yield database, settings
        finally:
            database.close()

    @contextmanager
    def gateway(self) -> Iterator[Gateway]:
        """Open a gateway of the named owner, on a database that exists.

        Raises `SettingsError`, `StorageError` and `NoDatabaseFile`.
        """
        with (
            self.database() as (database, settings),
            Gateway(settings, owner=self.owner, database=database, actor=person()) as gateway,
        ):
            yield gateway


def person() -> str:
    """Return the user at this host for the audit trail, as `ada@host (command line)`."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError):
        # A container's user may have no name.
        name = "somebody"
    return f"{name}@{socket.gethostname()} (command line)"


def find_session(connection: Connection, *, owner: str, session_id: str) -> SessionRecord:
    """Return the owner's session of that id. Raises `SessionNotFound`."""
    found = sessions.find(connection, owner=owner, session_id=session_id)
    if found is None:
        raise SessionNotFound(session_id, owner)
    return found


def moment_before(connection: Connection, database: Database, ms: int) -> int:
    """Return the time that was `ms` milliseconds ago, by the database's clock."""
    now: int = connection.execute(select(database.now())).scalar_one()
    return now - ms


class NoDatabaseFile(CommandError):
    """A command that creates no database found none."""

    def __init__(self, url: str) -> None:
        super().__init__(absence(url), Exit.UNAVAILABLE)


def missing_file(url: str) -> Path | None:
    """Return the SQLite file of `url` if that is one and does not exist, else None."""
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite" or not parsed.database or "uri" in parsed.query:
        return None
    file = Path(parsed.database)
    return None if file.exists() else file


def is_default(url: str) -> bool:
    """Return whether `url` is the default database."""
    return url == database_url(default_database_url())


def absence(url: str) -> str:
    """Return words for a missing database file: not yet made, or mistyped."""
    place = masked_url(url)
    if is_default(url):
        return f"no database yet at {place}; a gateway or `afterturn up` creates it"
    return (
        f"no such file: {place}; correct database_url in the configuration or DATABASE_URL, or "
        "let a gateway or `afterturn up` create it"
    )
