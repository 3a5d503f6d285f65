"""A database that fails is one clear error, soon, and the error shows no secret."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import IntegrityError

from storage import migrate
from storage.engine import CONNECT_SECONDS, Database, open_database
from storage.errors import DatabaseUnavailable, StorageError
from tests.support.observing.waiting import bound
from tests.support.servers.servers import PostgresServer
from tests.support.sessions.chat import assistant, user
from tests.support.sessions.stored_session import StoredSession, dump, on_postgresql

pytestmark = pytest.mark.both_databases

SECRET = "s3cret-Words"


@contextmanager
def within(seconds: float) -> Iterator[None]:
    started = time.monotonic()
    yield
    assert time.monotonic() - started < bound(seconds)


def whole_text(error: BaseException) -> str:
    """Return what a log would show of an error: its own text and that of all that led to it."""
    return "".join(traceback.format_exception(error))


def with_password(url: str) -> str:
    return make_url(url).set(password=SECRET).render_as_string(hide_password=False)


def nobody_listens(url: str) -> str:
    return make_url(url).set(port=1).render_as_string(hide_password=False)


def no_such_database(url: str) -> str:
    return make_url(url).set(database="nowhere").render_as_string(hide_password=False)


@pytest.mark.parametrize("spoil", [nobody_listens, no_such_database])
def test_a_server_that_cannot_be_reached_is_one_error_within_seconds(
    postgres_url: str, spoil: Callable[[str], str]
) -> None:
    database = open_database(with_password(spoil(postgres_url)))
    with within(CONNECT_SECONDS + 5), pytest.raises(DatabaseUnavailable) as caught:
        migrate.ensure(database)
    said = str(caught.value)
    assert said.startswith(f"the database {database.place} failed (")
    assert "nothing was stored" in said
    assert "DATABASE_URL" in said
    assert "afterturn doctor" in said
    assert SECRET not in whole_text(caught.value)
    database.close()


def test_a_server_that_dies_costs_one_error_and_is_used_again_when_it_is_back(
    own_postgres: PostgresServer,
) -> None:
    database = open_database(own_postgres.url)
    migrate.upgrade(database)
    session = StoredSession.create(database)
    session.append([user("kept")])

    def append_while_it_dies() -> None:
        with database.write() as connection:
            session.append_in(connection, [user("lost"), assistant(SECRET)])
            own_postgres.kill()
            session.make_due_in(connection)

    with within(CONNECT_SECONDS + 10), pytest.raises(DatabaseUnavailable) as caught:
        append_while_it_dies()
    assert SECRET not in whole_text(caught.value)
    with within(CONNECT_SECONDS + 5), pytest.raises(DatabaseUnavailable, match="nothing was sto"):
        session.append([user("lost")])

    own_postgres.start()
    # What the pool still holds are connections to the server that died.
    assert session.append([user("back")]) == range(1, 2)
    assert [row.position for row in session.view()] == [0, 1]
    database.close()


def test_a_file_that_cannot_be_opened_is_one_clear_error(sqlite_url: str) -> None:
    database = open_database(sqlite_url.replace("afterturn.db", ""))  # its folder
    with pytest.raises(DatabaseUnavailable, match="unable to open database file"):
        migrate.ensure(database)
    database.close()


def test_tables_that_are_missing_are_named(database_url: str) -> None:
    database = open_database(database_url)
    with pytest.raises(DatabaseUnavailable, match="sessions"):
        StoredSession.create(database)
    database.close()


@on_postgresql
def test_a_failed_commit_is_reported_and_stores_nothing(database: Database) -> None:
    session = StoredSession.create(database)
    before = dump(database)

    def append_and_be_cut_off() -> None:
        with database.write() as connection:
            session.append_in(connection, [user("lost")])
            process = connection.execute(text("SELECT pg_backend_pid()")).scalar_one()
            with database.write() as operator:
                operator.execute(text(f"SELECT pg_terminate_backend({process})"))

    with pytest.raises(DatabaseUnavailable):
        append_and_be_cut_off()
    assert dump(database) == before


# Statements that a database refuses, with what it likes to quote in its complaint.
REFUSED = {
    "a missing value": "INSERT INTO sessions (owner, id, source) VALUES (:said, :said, :said)",
    "a reference to nothing": (
        "INSERT INTO system_prompts (session_key, prompt) VALUES (404, :said)"
    ),
    "a second one of a kind": (
        "INSERT INTO sessions (owner, id, source, started_at, active_at)"
        " VALUES (:said, :said, '', 0, 0), (:said, :said, '', 0, 0)"
    ),
}


@pytest.mark.parametrize("statement", REFUSED.values(), ids=REFUSED)
def test_a_contradiction_is_its_own_error_and_quotes_no_row(
    database: Database, statement: str
) -> None:
    with pytest.raises(IntegrityError) as caught, database.write() as connection:
        connection.execute(text(statement), {"said": SECRET})
    assert not isinstance(caught.value, StorageError)
    assert SECRET not in whole_text(caught.value)


@on_postgresql
def test_a_value_of_the_wrong_kind_is_not_quoted(database: Database) -> None:
    statement = text("INSERT INTO cursors (session_key, name, position) VALUES (1, 'x', :said)")
    with (
        pytest.raises(DatabaseUnavailable) as caught,
        database.write() as connection,
    ):
        connection.execute(statement, {"said": SECRET})
    assert SECRET not in whole_text(caught.value)
    assert "InvalidTextRepresentation" in str(caught.value)


def test_values_of_a_statement_that_fails_are_not_quoted(database: Database) -> None:
    with pytest.raises(DatabaseUnavailable) as caught, database.write() as connection:
        connection.execute(text("INSERT INTO nowhere VALUES (:said)"), {"said": SECRET})
    assert SECRET not in whole_text(caught.value)
    assert "nowhere" in str(caught.value)
