"""What every command is told before its own options."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from afterturn.actor import person
from afterturn.database_file import NoDatabaseFile, missing_file
from producers.gateway import Gateway
from storage import migrate
from storage.engine import Database, open_database
from workers.settings import Settings, SettingsSource, load_settings


@dataclass(frozen=True, slots=True)
class Invocation:
    """The options in front of the command. `config` is None where the usual places hold."""

    config: Path | None
    owner: str

    @classmethod
    def of(cls, context: typer.Context) -> Invocation:
        """The invocation that a command belongs to."""
        found: Invocation = context.obj
        return found

    def stated_owner(self, context: typer.Context) -> str | None:
        """The owner, where --owner was given in front of the command; None where it was not."""
        root: Any = context.find_root()
        return None if root.get_parameter_source("owner").name == "DEFAULT" else self.owner

    def settings(self) -> Settings:
        """The settings of now. Raises `SettingsError`."""
        return load_settings(self.config)

    def source(self) -> SettingsSource:
        """Settings that follow the file. Raises `SettingsError`."""
        return SettingsSource.following(self.config)

    @contextmanager
    def database(self, *, create: bool = False) -> Iterator[tuple[Database, Settings]]:
        """The database with usable tables, and the settings that name it.

        A SQLite file that is not there is made only where that is wanted: the name of one may be
        mistyped. Raises `SettingsError`, `StorageError` and `NoDatabaseFile`.
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
        """A gateway of the owner that was named, on a database that is there.

        Raises `SettingsError`, `StorageError` and `NoDatabaseFile`.
        """
        with (
            self.database() as (database, settings),
            Gateway(settings, owner=self.owner, database=database, actor=person()) as gateway,
        ):
            yield gateway
