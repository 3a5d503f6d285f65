"""The tables of every revision become those of the next one, with what is in them."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from storage import migrate
from storage.engine import Database, open_database
from storage.errors import SchemaOutdated, StorageError
from storage.models import Base
from tests.support.observing.reflected_rows import Rows, fill, hold, read, reflect
from tests.support.programs.processes import Processes
from tests.support.sessions.chat import assistant, user
from tests.support.sessions.later_revision import install_later_revision
from tests.support.sessions.stored_session import StoredSession

pytestmark = pytest.mark.both_databases

FIRST = migrate.revisions()[0]

AT_ONCE = """
import pathlib, sys, time
from storage import migrate
from storage.engine import open_database
database = open_database(sys.argv[1])
print("ready", flush=True)
while not pathlib.Path(sys.argv[2]).exists():
    time.sleep(0.005)
migrate.upgrade(database)
migrate.ensure(database)
print(migrate.current(database), flush=True)
"""


@pytest.fixture
def later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A version of the program whose newest revision is `later`."""
    return install_later_revision(tmp_path / "migrations", monkeypatch)


@pytest.fixture
def empty(database_url: str) -> Database:
    """Return an open database without tables."""
    return open_database(database_url)


def contents(database: Database) -> Rows:
    with database.read() as connection:
        return read(connection)


def fill_tables(database: Database) -> Rows:
    with database.write() as connection:
        fill(connection)
    return contents(database)


def columns(rows: Rows) -> set[tuple[str, str]]:
    return {(table, name) for table, found in rows.items() for row in found for name in row}


def make_newer(database: Database) -> None:
    migrate.upgrade(database)
    with database.write() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))


def test_migrated_tables_are_those_of_the_models(empty: Database) -> None:
    migrate.upgrade(empty)
    # SQLite gives every default back as text in quotes, which counts as another one.
    options = {"compare_type": True, "compare_server_default": empty.dialect == "postgresql"}
    with empty.read() as connection:
        context = MigrationContext.configure(connection, opts=options)
        assert compare_metadata(context, Base.metadata) == []
        predicates = {
            index.name
            for table in reflect(connection)
            for index in table.indexes
            if index.dialect_options[empty.dialect]["where"] is not None
        }
    assert predicates == {
        index.name
        for table in Base.metadata.sorted_tables
        for index in table.indexes
        if index.dialect_options[empty.dialect]["where"] is not None
    }
    empty.close()


def test_rows_of_an_older_revision_are_all_there_afterwards(empty: Database, later: str) -> None:
    migrate.upgrade(empty, FIRST)
    before = fill_tables(empty)
    assert all(before.values())
    migrate.upgrade(empty)
    now = contents(empty)
    assert before.keys() < now.keys()
    for row in now["summaries"]:
        row["model"] = row.pop("model_name")
    assert hold(now, before)
    assert migrate.current(empty) == migrate.head() == later
    empty.close()


def test_a_conversation_of_an_older_revision_goes_on_after_the_upgrade(
    empty: Database, later: str
) -> None:
    migrate.upgrade(empty, FIRST)
    session = StoredSession.create(empty)
    session.append([user("old request"), assistant("old answer")])
    migrate.upgrade(empty)
    assert [row.message for row in session.view()] == [user("old request"), assistant("old answer")]
    assert session.append([user("new")]) == range(2, 3)
    assert session.enqueue().session == session.record().id
    assert migrate.current(empty) == later
    empty.close()


def test_a_step_back_drops_what_is_newer_and_keeps_the_rest(empty: Database, later: str) -> None:
    migrate.upgrade(empty, FIRST)
    before = fill_tables(empty)
    migrate.upgrade(empty)
    assert "extras" in contents(empty)
    migrate.downgrade(empty, FIRST)
    assert migrate.current(empty) == FIRST
    now = contents(empty)
    assert columns(now) == columns(before)
    assert hold(now, before)
    migrate.upgrade(empty)
    assert migrate.current(empty) == later
    empty.close()


def test_a_step_back_to_the_beginning_leaves_no_table(empty: Database) -> None:
    migrate.upgrade(empty)
    fill_tables(empty)
    migrate.downgrade(empty, "base")
    assert contents(empty) == {}
    assert migrate.current(empty) is None
    empty.close()


def test_an_upgrade_may_be_repeated(empty: Database) -> None:
    migrate.upgrade(empty)
    before = fill_tables(empty)
    migrate.upgrade(empty)
    migrate.ensure(empty)
    assert contents(empty) == before
    empty.close()


def test_two_processes_may_upgrade_at_once(
    database_url: str, processes: Processes, tmp_path: Path
) -> None:
    started = [
        processes.python("-c", AT_ONCE, database_url, str(tmp_path / "go")) for _ in range(2)
    ]
    for process in started:
        process.wait_for("ready")
    (tmp_path / "go").touch()
    assert [process.wait() for process in started] == [0, 0]
    assert [process.output for process in started] == [f"ready\n{migrate.head()}\n"] * 2


def test_an_upgrade_that_fails_leaves_the_tables_as_they_were(empty: Database, later: str) -> None:
    migrate.upgrade(empty, FIRST)
    with empty.write() as connection:
        connection.execute(text("ALTER TABLE sessions ADD COLUMN extra TEXT"))
    with pytest.raises(StorageError, match="extra"):
        migrate.upgrade(empty, later)
    assert migrate.current(empty) == FIRST
    assert "extras" not in contents(empty)
    empty.close()


def test_tables_of_a_newer_version_are_refused_and_left_alone(empty: Database) -> None:
    make_newer(empty)
    before = contents(empty)
    for refuse in (migrate.ensure, migrate.upgrade, lambda d: migrate.downgrade(d, FIRST)):
        with pytest.raises(SchemaOutdated, match="revision 9999, which is newer than this versi"):
            refuse(empty)
    assert contents(empty) == before
    empty.close()


@pytest.mark.parametrize("older", [None, FIRST])
def test_a_file_is_migrated_when_it_is_opened(
    sqlite_url: str, older: str | None, later: str
) -> None:
    database = open_database(sqlite_url)
    if older is not None:
        migrate.upgrade(database, older)
    migrate.ensure(database)
    assert migrate.current(database) == migrate.head() == later
    database.close()


@pytest.mark.parametrize(("older", "said"), [(None, "none"), (FIRST, FIRST)])
def test_a_servers_tables_are_only_checked(
    postgres_url: str, older: str | None, said: str, later: str
) -> None:
    database = open_database(postgres_url)
    if older is not None:
        migrate.upgrade(database, older)
    with pytest.raises(SchemaOutdated, match=rf"revision {said}, .* run `afterturn db upgrade`"):
        migrate.ensure(database)
    assert migrate.current(database) == older
    database.close()


def test_copying_a_table_loses_no_row_that_refers_to_it(empty: Database) -> None:
    """SQLite cannot change a column in place: a later revision will have to copy a table."""
    migrate.upgrade(empty)
    before = fill_tables(empty)
    with empty.write_schema() as connection:
        operations = Operations(MigrationContext.configure(connection))
        for table in ("sessions", "summaries"):
            with operations.batch_alter_table(table) as batch:
                batch.add_column(sa.Column("added", sa.Text()))
                batch.alter_column("model", new_column_name="model_name")
    now = contents(empty)
    assert "added" in now["sessions"][0]
    assert hold(now, before)
    with pytest.raises(IntegrityError), empty.write() as connection:
        connection.execute(text("UPDATE system_prompts SET session_key = 404"))
    empty.close()


def test_a_migration_that_loses_a_row_that_others_refer_to_is_taken_back(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = open_database(sqlite_url)
    migrate.upgrade(database)
    before = fill_tables(database)

    def lose_sessions(config: Config, _revision: str) -> None:
        connection = config.attributes["connection"]
        connection.execute(text("DELETE FROM sessions"))
        connection.execute(text("UPDATE alembic_version SET version_num = '0000'"))

    monkeypatch.setattr(command, "downgrade", lose_sessions)
    with pytest.raises(StorageError, match="refer to missing ones; it was taken back"):
        migrate.downgrade(database, "base")
    assert contents(database) == before
    database.close()
