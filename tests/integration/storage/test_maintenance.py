"""Maintenance of a database file while it is in use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text as sql

from storage import maintenance
from storage.engine import BUSY_SECONDS, Database, open_database
from storage.errors import DatabaseUnavailable
from storage.maintenance import Maintained
from tests.support.sessions.chat import user
from tests.support.sessions.gateways import migrated, rows_of
from tests.support.sessions.stored_session import StoredSession


@pytest.fixture
def file(sqlite_url: str) -> Iterator[Database]:
    with migrated(sqlite_url) as database:
        yield database


def log_size(database: Database) -> int:
    return Path(f"{database.engine.url.database}-wal").stat().st_size


def test_the_log_is_moved_and_cut_off_while_nobody_uses_it(file: Database) -> None:
    session = StoredSession.create(file)
    session.append([user("x" * 100_000)])
    assert log_size(file) > 100_000
    result = maintenance.maintain(file)
    assert result.cut_off
    assert result.pages == result.moved > 20
    assert log_size(file) == 0
    assert maintenance.maintain(file).pages < 20
    assert len(session.view()) == 1


def test_readers_and_writers_go_on_meanwhile(file: Database) -> None:
    session = StoredSession.create(file)
    session.append([user("x" * 100_000)])
    with file.read() as reader:
        before = reader.execute(sql("SELECT count(*) FROM messages")).scalar_one()
        session.append([user("more")])
        result = maintenance.maintain(file)
        assert not result.cut_off
        assert reader.execute(sql("SELECT count(*) FROM messages")).scalar_one() == before
    with file.write() as writer:
        writer.execute(sql("UPDATE sessions SET source = 'web'"))
        assert not maintenance.maintain(file).cut_off
    assert len(session.view()) == 2
    assert maintenance.maintain(file).cut_off


def test_connections_are_as_patient_as_before(file: Database) -> None:
    StoredSession.create(file)
    maintenance.maintain(file)
    assert rows_of(file, "PRAGMA busy_timeout") == [(BUSY_SECONDS * 1000,)]


def test_statistics_are_made_when_tables_have_grown(file: Database) -> None:
    with file.write() as connection:
        connection.execute(
            sql(
                "INSERT INTO sessions (owner, id, source, started_at, active_at)"
                " WITH RECURSIVE numbers (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers"
                " WHERE n < 2000) SELECT 'o', n, 'cli', n, n FROM numbers"
            )
        )
    # SQLite makes statistics of tables where it has missed them.
    assert rows_of(file, "SELECT id FROM sessions WHERE active_at = 7") == [("7",)]
    maintenance.maintain(file)
    known = rows_of(file, "SELECT count(*) FROM sqlite_stat1 WHERE tbl = 'sessions'")
    assert known > [(0,)]


def test_a_server_looks_after_itself(postgres_url: str) -> None:
    with migrated(postgres_url) as database:
        assert maintenance.maintain(database) == Maintained()


def test_a_file_that_is_none_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "afterturn.db"
    path.write_bytes(b"not a database, " * 1000)
    database = open_database(f"sqlite:///{path}")
    with pytest.raises(DatabaseUnavailable, match="not a database"):
        maintenance.maintain(database)
    database.close()
