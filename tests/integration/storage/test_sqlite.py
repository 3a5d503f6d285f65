"""SQLite: many processes share one file, and none gets the error that it is locked."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from threading import Event

import pytest
from sqlalchemy import text

from storage import jobs, migrate
from storage.engine import BUSY_SECONDS, Database, open_database
from storage.errors import DatabaseUnavailable
from tests.support.observing.at_once import at_once, succeeded
from tests.support.sessions.chat import assistant, user
from tests.support.sessions.stored_session import StoredSession


@pytest.fixture
def database(sqlite_url: str) -> Iterator[Database]:
    """Yield a file of the test's own, its tables made."""
    opened = open_database(sqlite_url)
    migrate.ensure(opened)
    yield opened
    opened.close()


@contextmanager
def somebody_else_writing(database: Database) -> Iterator[sqlite3.Connection]:
    """Yield a connection of another program that holds the write lock."""
    other = sqlite3.connect(str(database.engine.url.database), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    other.execute("UPDATE sessions SET turns = turns")
    try:
        yield other
    finally:
        if other.in_transaction:
            other.execute("ROLLBACK")
        other.close()


def asked(database: Database, pragma: str) -> object:
    with database.read() as connection:
        return connection.execute(text(f"PRAGMA {pragma}")).scalar_one()


def test_every_connection_is_set_up_for_sharing(database: Database) -> None:
    assert asked(database, "journal_mode") == "wal"
    assert asked(database, "foreign_keys") == 1
    assert asked(database, "busy_timeout") == BUSY_SECONDS * 1000
    assert asked(database, "synchronous") == 2  # FULL


def test_writers_take_the_write_lock_at_once_and_readers_none(database: Database) -> None:
    other = sqlite3.connect(str(database.engine.url.database), timeout=0)
    with database.read() as connection:
        connection.execute(text("SELECT count(*) FROM sessions"))
        other.execute("BEGIN IMMEDIATE")
        other.execute("ROLLBACK")
    with (
        database.write(),
        pytest.raises(sqlite3.OperationalError, match="database is locked"),
    ):
        other.execute("BEGIN IMMEDIATE")
    other.execute("BEGIN IMMEDIATE")
    other.execute("ROLLBACK")
    other.close()


def test_a_current_database_is_opened_and_read_while_somebody_writes(
    database: Database,
) -> None:
    session = StoredSession.create(database)
    session.append([user("here")])
    with somebody_else_writing(database):
        # A lock that is needed here would be waited for, and never be had.
        opened = open_database(str(database.engine.url))
        migrate.ensure(opened)
        with opened.read() as connection:
            assert not jobs.any_due(connection, opened, again_after_ms=1000)
        assert len(StoredSession(opened, session.key).view()) == 1
        opened.close()


def test_a_writer_waits_for_another_one_instead_of_failing(database: Database) -> None:
    session = StoredSession.create(database)
    begins = Event()

    def append() -> range:
        begins.set()
        return session.append([user("patient")])

    with ThreadPoolExecutor(1) as pool:
        with somebody_else_writing(database):
            appended: Future[range] = pool.submit(append)
            assert begins.wait(10)
            with pytest.raises(TimeoutError):
                appended.result(0.1)
        assert appended.result(BUSY_SECONDS) == range(1)


def test_a_new_file_is_waited_for_while_somebody_else_makes_it(tmp_path: Path) -> None:
    path = tmp_path / "new.db"
    database = open_database(f"sqlite:///{path}")
    with ThreadPoolExecutor(1) as pool, closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN IMMEDIATE")
        made = pool.submit(migrate.ensure, database)
        with pytest.raises(TimeoutError):
            made.result(0.1)
        other.rollback()
        made.result(BUSY_SECONDS)
    assert asked(database, "journal_mode") == "wal"
    database.close()


def test_eight_writers_at_once_lose_nothing(database: Database) -> None:
    session = StoredSession.create(database)

    def write(number: int) -> None:
        for turn in range(10):
            # Each reads before it writes, where a transaction cannot be made a writer's later on.
            with database.write() as connection:
                connection.execute(text("SELECT count(*) FROM messages")).scalar_one()
                session.append_in(connection, [user(f"{number}.{turn}"), assistant("x")])
                session.make_due_in(connection)

    succeeded(at_once([partial(write, number) for number in range(8)]))
    assert session.record().turns == 80
    assert [row.position for row in session.view()] == list(range(160))


def test_a_file_that_is_no_database_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "notes.db").write_text("these are notes and no database at all " * 10)
    database = open_database(f"sqlite:///{tmp_path}/notes.db")
    with pytest.raises(DatabaseUnavailable, match=r"notes\.db failed .*file is not a database"):
        migrate.ensure(database)
    database.close()


def test_ids_are_never_given_twice(database: Database) -> None:
    session = StoredSession.create(database)
    first = session.enqueue().id
    with database.write() as connection:
        connection.execute(text("DELETE FROM jobs"))
    assert session.enqueue().id > first
