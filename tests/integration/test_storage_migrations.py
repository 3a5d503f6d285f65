"""The tables of every revision become those of the next one, with what is in them."""

from __future__ import annotations

from itertools import pairwise
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

from storage import migrate, pruned, sessions
from storage.engine import Database, open_database
from storage.errors import SchemaOutdated, StorageError
from storage.jobs import JobKind
from storage.models import Base
from storage.pruned import ShortForm
from tests.chat import assistant, calling, result, user
from tests.processes import Processes
from tests.reflected_rows import Rows, fill, hold, read, reflect
from tests.stored_session import StoredSession

pytestmark = pytest.mark.both_databases

REVISIONS = migrate.revisions()
STEPS = list(pairwise(REVISIONS))

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
def empty(database_url: str) -> Database:
    """An open database without tables."""
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


def test_there_is_a_revision_to_come_from() -> None:
    assert len(STEPS) >= 1
    assert migrate.head() == REVISIONS[-1]


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


@pytest.mark.parametrize("older", REVISIONS[:-1])
def test_rows_of_an_older_revision_are_all_there_afterwards(empty: Database, older: str) -> None:
    migrate.upgrade(empty, older)
    before = fill_tables(empty)
    assert all(before.values())
    migrate.upgrade(empty)
    now = contents(empty)
    assert before.keys() <= now.keys()
    assert hold(now, before)
    assert migrate.current(empty) == migrate.head()
    empty.close()


def test_a_conversation_of_the_first_revision_goes_on_after_the_upgrade(empty: Database) -> None:
    migrate.upgrade(empty, "0001")
    with empty.write() as connection:
        for statement in FIRST_REVISION:
            connection.execute(text(statement))
    migrate.upgrade(empty)

    session = StoredSession(empty, 1)
    assert [(row.position, row.message) for row in session.view()] == [
        (0, user("old request")),
        (1, None),
        (2, assistant("old answer")),
    ]
    assert session.view()[1].summary == "old summary"
    assert session.append([user("new")]) == range(3, 4)
    assert session.make_due().session == session.record().id
    undone = session.undo()
    assert undone is not None
    assert undone.rows_restored == 1
    assert [row.position for row in session.view()] == [0, 1, 2, 3]
    empty.close()


FIRST_REVISION = (
    "INSERT INTO sessions (owner, id, source, next_position, turns, live_messages, live_tokens,"
    " started_at, active_at) VALUES ('o', 's', 'cli', 3, 1, 3, 30, 5, 6)",
    "INSERT INTO summaries (session_key, kind, status, text, tokens, first_position,"
    " last_position, cursor_before, template, model, created_at)"
    " VALUES (1, 'micro', 'live', 'old summary', 10, 1, 1, 0, 't', 'm', 6)",
    "INSERT INTO messages (session_key, position, role, origin, opens_turn, tokens, content,"
    " created_at) VALUES (1, 0, 'user', 'person', 1, 10, 'old request', 6)",
    "INSERT INTO messages (session_key, position, role, tokens, content, created_at, active,"
    " compacted, absorbed_by) VALUES (1, 1, 'assistant', 10, 'absorbed', 6, 0, 1, 1)",
    "INSERT INTO messages (session_key, position, kind, tokens, summary_id, created_at)"
    " VALUES (1, 1, 'micro', 10, 1, 6)",
    "INSERT INTO messages (session_key, position, role, tokens, content, created_at)"
    " VALUES (1, 2, 'assistant', 10, 'old answer', 6)",
    "INSERT INTO cursors (session_key, name, position) VALUES (1, 'micro', 2)",
)


@pytest.mark.parametrize(("older", "newer"), STEPS)
def test_a_step_back_drops_what_is_newer_and_keeps_the_rest(
    empty: Database, older: str, newer: str
) -> None:
    migrate.upgrade(empty, newer)
    fill_tables(empty)
    if newer == "0005":
        # What an older version shows of a pruned row has its own test.
        with empty.write() as connection:
            connection.execute(text("UPDATE messages SET pruned = NULL"))
    before = contents(empty)
    migrate.downgrade(empty, older)
    assert migrate.current(empty) == older
    now = contents(empty)
    assert columns(now) < columns(before)
    assert hold(now, before)
    migrate.upgrade(empty, newer)
    assert contents(empty).keys() == before.keys()
    empty.close()


def test_an_older_version_counts_what_it_shows_in_full_again(empty: Database) -> None:
    migrate.upgrade(empty)
    session = StoredSession.create(empty)
    session.append([user("look"), calling("c"), result("c", "x" * 40), assistant("found")])
    session.append([user("rewound"), assistant("gone")])
    whole = session.record().live_tokens
    with empty.write() as connection:
        sessions.lock(connection, session.key)
        short = ShortForm(2, {"role": "tool", "tool_call_id": "c", "content": "⟦…⟧"}, 7, 3)
        assert pruned.shorten(connection, session.key, [short]) == 1
        sessions.count_change(connection, session.key, messages=0, tokens=-3)
    session.make_due(JobKind.PRUNE)
    tokens = [row["tokens"] for row in contents(empty)["messages"]]
    migrate.downgrade(empty, "0004")
    now = contents(empty)
    assert now["sessions"][0]["live_tokens"] == whole
    assert [row["tokens"] for row in now["messages"]] == [
        each + (3 if place == 2 else 0) for place, each in enumerate(tokens)
    ]
    assert [row["kind"] for row in now["jobs"]] == []
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


def test_an_upgrade_that_fails_leaves_the_tables_as_they_were(empty: Database) -> None:
    migrate.upgrade(empty, "0001")
    with empty.write() as connection:
        connection.execute(text("CREATE TABLE attempts (in_the_way INTEGER)"))
    with pytest.raises(StorageError, match="attempts"):
        migrate.upgrade(empty)
    assert migrate.current(empty) == "0001"
    assert "jobs" not in contents(empty)
    empty.close()


def test_tables_of_a_newer_version_are_refused_and_left_alone(empty: Database) -> None:
    make_newer(empty)
    before = contents(empty)
    for refuse in (migrate.ensure, migrate.upgrade, lambda d: migrate.downgrade(d, "0001")):
        with pytest.raises(SchemaOutdated, match="revision 9999, which is newer than this versi"):
            refuse(empty)
    assert contents(empty) == before
    empty.close()


@pytest.mark.parametrize("older", [None, *REVISIONS[:-1]])
def test_a_file_is_migrated_when_it_is_opened(sqlite_url: str, older: str | None) -> None:
    database = open_database(sqlite_url)
    if older is not None:
        migrate.upgrade(database, older)
    migrate.ensure(database)
    assert migrate.current(database) == migrate.head()
    database.close()


@pytest.mark.parametrize(("older", "said"), [(None, "none"), *((r, r) for r in REVISIONS[:-1])])
def test_a_servers_tables_are_only_checked(postgres_url: str, older: str | None, said: str) -> None:
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
        connection.execute(text("UPDATE alembic_version SET version_num = '0001'"))

    monkeypatch.setattr(command, "downgrade", lose_sessions)
    with pytest.raises(StorageError, match="refer to missing ones; it was taken back"):
        migrate.downgrade(database, "0001")
    assert contents(database) == before
    database.close()
