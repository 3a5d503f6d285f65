"""One interface to both databases: snapshots, transactions, the clock, and what is refused."""

from __future__ import annotations

from contextlib import closing, nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Connection, select, text
from sqlalchemy.exc import IntegrityError

from storage.concurrency import ConcurrencyLimit
from storage.conversations import messages, sessions
from storage.engine import PREPARE_THRESHOLD, Database, open_database
from storage.errors import DatabaseUnavailable, StorageError
from storage.jobs import JobKind
from tests.support.observing.at_once import at_once, succeeded
from tests.support.sessions.chat import assistant, user
from tests.support.sessions.gateways import migrated
from tests.support.sessions.stored_session import StoredSession, dump, later

pytestmark = pytest.mark.both_databases


class StoppedHere(Exception):
    """What a caller's own code raises in the middle of a transaction."""


def count(connection: Connection, table: str) -> int:
    return int(connection.execute(text(f"SELECT count(*) FROM {table}")).scalar_one())


def clock(database: Database) -> int:
    with database.read() as connection:
        return connection.execute(select(database.now())).scalar_one()


def test_a_read_is_one_snapshot_whatever_is_written_meanwhile(database: Database) -> None:
    session = StoredSession.create(database)
    session.append([user("before")])
    with database.read() as connection:
        before = (count(connection, "messages"), sessions.fetch(connection, session.key))
        session.append([user("meanwhile"), assistant("x")])
        assert (count(connection, "messages"), sessions.fetch(connection, session.key)) == before
    with database.read() as connection:
        assert count(connection, "messages") == 3


def test_what_is_written_through_a_read_is_not_kept(database: Database) -> None:
    session = StoredSession.create(database)
    refused = pytest.raises(DatabaseUnavailable, match="ReadOnlySqlTransaction")
    with (
        refused if database.dialect == "postgresql" else nullcontext(),
        database.read() as connection,
    ):
        sessions.keep_prompt(connection, session.key, "never")
    with database.read() as connection:
        assert sessions.read_prompt(connection, session.key) is None


def test_statements_stay_prepared_whatever_numbers_they_are_given(postgres_url: str) -> None:
    """Without care, a rollback or a number of another size would cost that."""
    with migrated(postgres_url) as database:
        for number in (1, 40_000, 3_000_000_000):
            for _ in range(PREPARE_THRESHOLD + 1):
                with database.read() as connection:
                    messages.read_rows(connection, number, [number])
        with database.read() as connection:
            prepared = connection.execute(
                text(
                    "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%messages%'"
                )
            )
            assert prepared.scalar() == 1


@pytest.mark.parametrize(("given", "prepares"), [("none", False), ("2", True)])
def test_the_url_says_when_statements_are_prepared(
    given: str, prepares: bool, postgres_url: str
) -> None:
    with closing(open_database(f"{postgres_url}?prepare_threshold={given}")) as database:
        for _ in range(PREPARE_THRESHOLD):
            with database.read() as connection:
                connection.execute(text("SELECT 1 WHERE :x = 1"), {"x": 1})
        with database.read() as connection:
            many = connection.execute(text("SELECT count(*) FROM pg_prepared_statements")).scalar()
    assert bool(many) is prepares


def test_a_threshold_that_is_no_number_is_refused() -> None:
    with pytest.raises(StorageError, match="prepare_threshold=none"):
        open_database("postgresql://u@localhost/x?prepare_threshold=often")


def test_a_write_that_raises_leaves_nothing(database: Database) -> None:
    session = StoredSession.create(database)
    before = dump(database)

    def append_and_stop() -> None:
        with database.write() as connection:
            session.append_in(connection, [user("lost"), assistant("lost")])
            session.make_due_in(connection)
            raise StoppedHere

    with pytest.raises(StoppedHere):
        append_and_stop()
    assert dump(database) == before


def test_a_write_whose_last_statement_fails_leaves_nothing(database: Database) -> None:
    session = StoredSession.create(database)
    session.append([user("kept")])
    before = dump(database)

    def append_and_contradict() -> None:
        with database.write() as connection:
            session.append_in(connection, [user("lost")])
            connection.execute(text("UPDATE messages SET position = 0"))

    with pytest.raises(IntegrityError):
        append_and_contradict()
    assert dump(database) == before


def test_a_row_of_a_session_that_does_not_exist_is_refused(database: Database) -> None:
    with pytest.raises(IntegrityError), database.write() as connection:
        StoredSession(database, 404).make_due_in(connection)
    with database.read() as connection:
        assert count(connection, "jobs") == 0


def test_a_connection_is_as_good_as_new_after_a_failed_write(database: Database) -> None:
    session = StoredSession.create(database)

    def stop() -> None:
        with database.write() as connection:
            session.make_due_in(connection)
            raise StoppedHere

    for _ in range(30):  # more than the pool holds
        with pytest.raises(StoppedHere):
            stop()
    assert session.enqueue().session == session.record().id


def test_the_clock_is_the_databases_and_an_offset_moves_it(database: Database) -> None:
    first = clock(database)
    assert 1_600_000_000_000 < first < 10_000_000_000_000
    year = 365 * 86_400_000
    assert 0 <= clock(later(database, year)) - first - year < 60_000
    assert 0 <= clock(later(database, -year)) - first + year < 60_000


def test_the_clock_never_goes_back_within_a_transaction(database: Database) -> None:
    with database.write() as connection:
        seen = [connection.execute(select(database.now())).scalar_one() for _ in range(50)]
    assert seen == sorted(seen)


def test_times_far_away_can_be_stored(database: Database) -> None:
    session = StoredSession.create(database)
    century = 100 * 365 * 86_400_000
    job = session.enqueue(JobKind.MICRO, delay_ms=century)
    with database.read() as connection:
        run_at = connection.execute(text("SELECT run_at FROM jobs")).scalar_one()
    assert run_at - clock(database) == pytest.approx(century, abs=60_000)
    assert job.kind is JobKind.MICRO


def test_many_threads_may_use_one_database(database: Database) -> None:
    session = StoredSession.create(database)

    def append() -> list[range]:
        return [session.append([user("a"), assistant("b")]) for _ in range(2)]

    taken = succeeded(at_once([append] * 32))
    places = sorted(place for ranges in taken for places in ranges for place in places)
    assert places == list(range(128))
    assert session.record().live_messages == 128


@pytest.mark.parametrize(
    "url",
    [
        "sqlite://",
        "sqlite:///",
        "sqlite:///:memory:",
        "sqlite:///file::memory:?cache=shared&uri=true",
        "sqlite:///file:shared?mode=memory&cache=shared&uri=true",
    ],
)
def test_a_database_in_memory_is_refused(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StorageError, match="sqlite:///PATH"):
        open_database(url)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("mysql://root:secret@localhost/x", "'mysql' are not supported; use sqlite or postgresql"),
        ("redis://:secret@localhost/0", "'redis' are not supported"),
        ("secret words", "cannot be read; write sqlite:///PATH or postgresql://"),
        ("", "cannot be read"),
        ("postgresql://u:secret@host:secret/x", "cannot be read"),
    ],
)
def test_an_address_that_cannot_work_is_refused_without_repeating_it(url: str, said: str) -> None:
    with pytest.raises(StorageError) as caught:
        open_database(url)
    assert said in str(caught.value)
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    "scheme", ["postgresql", "postgres", "postgresql+psycopg", "postgresql+asyncpg"]
)
def test_every_way_to_write_postgresql_opens_the_one_driver(scheme: str) -> None:
    database = open_database(f"{scheme}://u:secret@localhost/x")
    assert database.dialect == "postgresql"
    assert database.engine.driver == "psycopg"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:secret@localhost:5432/x",
        "postgresql://localhost:5432/x?user=u&password=secret",
    ],
)
def test_the_place_of_a_database_is_shown_without_its_password(url: str) -> None:
    place = open_database(url).place
    assert "secret" not in place
    assert "localhost:5432/x" in place


def test_opening_connects_to_nothing() -> None:
    open_database("postgresql://u@localhost:1/x").close()


def test_the_folder_of_a_new_file_is_made(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "afterturn.db"
    database = open_database(f"sqlite:///{path}")
    with database.read() as connection:
        assert connection.execute(text("SELECT 1")).scalar_one() == 1
    database.close()
    assert path.exists()


def test_a_folder_that_cannot_be_made_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match=r"the folder .*/file/deeper cannot be made"):
        open_database(f"sqlite:///{tmp_path}/file/deeper/afterturn.db")


def test_a_look_sees_what_is_stored_and_leaves_the_connection_as_it_was(
    database: Database,
) -> None:
    session = StoredSession.create(database)
    for number in range(3):
        with database.look() as connection:
            assert sessions.fetch(connection, session.key).next_position == 2 * number
        session.append([user("more")])
        with database.read() as connection:
            before = count(connection, "messages")
            session.append([user("meanwhile")])
            assert count(connection, "messages") == before == 2 * number + 1
        with database.write() as connection:
            connection.execute(text("DELETE FROM messages WHERE position = :at"), {"at": -1})


def test_one_statement_is_stored_without_more_ado_or_not_at_all(database: Database) -> None:
    session = StoredSession.create(database)
    for number in range(3):
        with database.store() as connection:
            sessions.note_checked(connection, session.key, number)
        with database.read() as connection:
            assert sessions.fetch(connection, session.key).checked_tokens == number
    with pytest.raises(IntegrityError), database.store() as connection:
        connection.execute(text("UPDATE sessions SET owner = NULL"))
    with database.read() as connection:
        assert sessions.fetch(connection, session.key).checked_tokens == 2


def test_a_database_that_cannot_be_reached_has_stored_nothing(tmp_path: Path) -> None:
    for database in (
        open_database("postgresql://u@127.0.0.1:1/none?connect_timeout=2"),
        open_database(f"sqlite:///{tmp_path}"),
    ):
        with (
            closing(database),
            pytest.raises(DatabaseUnavailable, match="nothing was stored"),
            database.store() as connection,
        ):
            connection.execute(text("SELECT 1"))


def test_threads_that_take_turns_write_what_they_would_alone(database: Database) -> None:
    session = StoredSession.create(database)
    in_turns = replace(database, concurrency_limit=ConcurrencyLimit(timeout=10_000.0))

    def write() -> None:
        with in_turns.write() as connection:
            sessions.count_change(connection, session.key, messages=1, tokens=2)
            # A read within it waits for nobody, and sees none of it.
            with in_turns.read() as other:
                seen = sessions.fetch(other, session.key).live_messages
        with in_turns.look() as connection:
            assert sessions.fetch(connection, session.key).live_messages > seen

    succeeded(at_once([write] * 16))
    with database.read() as connection:
        assert sessions.fetch(connection, session.key).live_messages == 16


def test_the_way_to_a_database_on_the_same_machine_is_short(database: Database) -> None:
    assert 0 < database.way_seconds() < 1
