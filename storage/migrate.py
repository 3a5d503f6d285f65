"""Bring the tables of a database to this version's revision."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection
from sqlalchemy import text as sql

from storage.engine import Database, open_database
from storage.errors import SchemaOutdated, StorageError

_FOLDER = Path(__file__).parent / "migrations"
_LOCK = 0x61667465
"""Advisory lock of PostgreSQL under which one process migrates while others wait."""


def head() -> str:
    """Return the revision that this version works with."""
    newest = ScriptDirectory.from_config(_config()).get_current_head()
    if newest is None:
        raise SchemaOutdated(f"the package holds no migrations in {_FOLDER}; install it anew")
    return newest


def revisions() -> list[str]:
    """Return every revision, oldest first."""
    scripts = ScriptDirectory.from_config(_config()).walk_revisions()
    return [script.revision for script in scripts][::-1]


def current(database: Database) -> str | None:
    """Return the revision that the database is at; None for an empty one."""
    with database.read() as connection:
        return _current(connection)


def upgrade(database: Database, revision: str = "head") -> None:
    """Migrate to `revision` in one transaction; do nothing where it is reached already.

    Raises `SchemaOutdated` for a database at a revision that this version does not know.
    """
    _move(database, command.upgrade, revision)


def downgrade(database: Database, revision: str) -> None:
    """Go back to `revision` (`base`: no tables) in one transaction; newer tables are dropped.

    Raises `SchemaOutdated` as `upgrade` does.
    """
    _move(database, command.downgrade, revision)


def ensure(database: Database) -> None:
    """Make the tables usable: a SQLite file is migrated, a server's database only checked.

    Takes no write lock where the revision is right. Raises `SchemaOutdated` for a server's
    database at another revision and for any database at one that this version does not know.
    """
    found = current(database)
    if found == head():
        return
    _refuse_unknown(database, found)
    if database.dialect == "sqlite":
        upgrade(database)
        return
    raise SchemaOutdated(
        f"the tables of {database.place} are at revision {found or 'none'}, this version needs "
        f"{head()}; run `afterturn db upgrade`"
    )


def _move(database: Database, step: Callable[[Config, str], None], revision: str) -> None:
    with database.write_schema() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(sql(f"SELECT pg_advisory_xact_lock({_LOCK})"))
        before = _current(connection)
        _refuse_unknown(database, before)
        config = _config()
        config.attributes["connection"] = connection
        step(config, revision)
        if database.dialect == "sqlite" and _current(connection) != before:
            _check_foreign_keys(connection)


def _check_foreign_keys(connection: Connection) -> None:
    """Raise `StorageError` where a row refers to one that a migration has lost."""
    if connection.execute(sql("PRAGMA foreign_key_check")).first() is not None:
        raise StorageError("the migration left rows that refer to missing ones; it was taken back")


def _refuse_unknown(database: Database, revision: str | None) -> None:
    if revision is not None and revision not in revisions():
        raise SchemaOutdated(
            f"the tables of {database.place} are at revision {revision}, which is newer than this "
            "version of afterturn knows; install the version that made them"
        )


def open_ready(url: str, *, pool_size: int = 10) -> Database:
    """Open the database `url` and make its tables usable. Raises like `open_database`, `ensure`."""
    database = open_database(url, pool_size=pool_size)
    try:
        ensure(database)
    except BaseException:
        database.close()
        raise
    return database


def _current(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(_FOLDER).replace("%", "%%"))
    return config
