"""A database that fails is one clear error, soon; nothing is half-written, repeating is safe."""

from __future__ import annotations

import socket
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from producers import DatabaseUnavailable, Gateway, Receipt
from storage.engine import Database, open_database
from tests.support.observing.at_once import at_once
from tests.support.observing.waiting import bound, wait_until
from tests.support.servers.servers import PostgresServer
from tests.support.sessions.conversations import turn
from tests.support.sessions.gateways import (
    as_bytes,
    contents,
    migrated,
    rows_of,
    stored_messages,
    url_of,
)
from workers.settings import Settings

pytestmark = pytest.mark.both_databases

SOON_SECONDS = 10.0
SECRET = "the text of a conversation"


def every_method(gateway: Gateway) -> list[Callable[[], object]]:
    """Return a call of each method on session `s`, with a text that no error may quote."""
    said = [{"role": "user", "content": SECRET}, {"role": "assistant", "content": SECRET}]
    return [
        lambda: gateway.open_session("s", title=SECRET, system_prompt=SECRET),
        lambda: gateway.open_session(source="slack", chat_id="C"),
        lambda: gateway.finalize_turn("s", said, event_id="e"),
        lambda: gateway.append("s", said),
        lambda: gateway.rewind("s"),
        lambda: gateway.undo("s"),
        lambda: gateway.set_model("s", "m"),
        lambda: gateway.close_session("s"),
    ]


def fails_soon(call: Callable[[], object]) -> str:
    """Make sure that the call ends in the one error, in time and without text; return its words."""
    started = time.monotonic()
    with pytest.raises(DatabaseUnavailable) as refused:
        call()
    assert time.monotonic() - started < bound(SOON_SECONDS)
    assert SECRET not in f"{refused.value}{refused.value.__cause__}"
    return str(refused.value)


@contextmanager
def impatient_gateway(url: str, **pragmas: int) -> Iterator[tuple[Gateway, Database]]:
    """Yield a gateway on SQLite that waits for a lock for a moment only; `pragmas` limit it
    further."""
    with closing(open_database(url)) as database:

        @event.listens_for(database.engine, "connect")
        def _limit(connection: Any, _record: Any) -> None:
            for name, value in {"busy_timeout": 50, **pragmas}.items():
                connection.execute(f"PRAGMA {name}={value}")

        yield Gateway(Settings(database_url=url), database=database), database


def test_a_server_that_is_stopped_is_one_error_of_every_method(
    own_postgres: PostgresServer,
) -> None:
    url = own_postgres.url
    with migrated(url) as database, Gateway(Settings(database_url=url)) as gateway:
        session = gateway.open_session("s")
        gateway.finalize_turn(session, turn(1))
        before = contents(database)
        own_postgres.stop()
        for call in [*every_method(gateway), lambda: gateway.load_context("s")]:
            assert "nothing was stored" in fails_soon(call)
        assert "DATABASE_URL" in fails_soon(lambda: Gateway(Settings(database_url=url)))
        own_postgres.start()
        assert contents(database) == before
        # The same gateway goes on, and the event's id was not used up.
        assert not gateway.finalize_turn("s", turn(2), event_id="e").repeated


def test_a_server_killed_while_turns_are_finished_stores_each_turn_whole_or_not_at_all(
    own_postgres: PostgresServer,
) -> None:
    url = own_postgres.url
    threads, turns = 6, 40
    with migrated(url) as database, Gateway(Settings(database_url=url)) as gateway:
        sessions = [gateway.open_session(f"s{number}") for number in range(3)]
        stored: list[tuple[int, int]] = []

        def finish(thread: int, number: int) -> Receipt:
            return gateway.finalize_turn(
                sessions[thread % 3],
                turn(100 * thread + number),
                event_id=f"e{thread}-{number}",
            )

        def finish_all(thread: int) -> list[int]:
            failed = []
            for number in range(turns):
                try:
                    finish(thread, number)
                    stored.append((thread, number))
                except DatabaseUnavailable:
                    failed.append(number)
            return failed

        def kill() -> list[int]:
            wait_until(lambda: len(stored) > threads * turns // 4, "some turns are stored")
            own_postgres.kill()
            return []

        results = at_once([*(lambda t=t: finish_all(t) for t in range(threads)), kill])
        failed = [(t, n) for t in range(threads) for n in _numbers(results[t])]
        assert failed, "the server was killed too late to matter"
        own_postgres.start()
        # A gateway with a receipt finds its turn stored; one without repeats the call.
        repeated = {thread_turn: finish(*thread_turn).repeated for thread_turn in stored}
        assert all(repeated.values())
        for thread_turn in failed:
            finish(*thread_turn)
        for place, session in enumerate(sessions):
            expected = [
                turn(100 * thread + number)
                for thread in range(threads)
                if thread % 3 == place
                for number in range(turns)
            ]
            whole = stored_messages(database, session)
            found = [as_bytes(whole[i : i + 4]) for i in range(0, len(whole), 4)]
            assert sorted(found) == sorted(as_bytes(one) for one in expected)
        (counts,) = rows_of(database, "SELECT sum(turns), sum(next_position) FROM sessions")
        assert counts == (threads * turns, threads * turns * 4)


def _numbers(result: list[int] | Exception) -> list[int]:
    assert isinstance(result, list), result
    return result


def test_a_host_that_vanishes_is_noticed_within_half_a_minute(postgres_url: str) -> None:
    with closing(open_database(postgres_url)) as database, database.read() as connection:
        driver: Any = connection.connection.driver_connection
        with socket.fromfd(driver.fileno(), socket.AF_INET, socket.SOCK_STREAM) as line:

            def option(name: int) -> int:
                return line.getsockopt(socket.IPPROTO_TCP, name)

            assert line.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            probes = option(socket.TCP_KEEPCNT) * option(socket.TCP_KEEPINTVL)
            assert option(socket.TCP_KEEPIDLE) + probes <= 30
            assert 0 < option(socket.TCP_USER_TIMEOUT) <= 30_000


def test_a_locked_file_is_one_error_of_every_method_that_writes(sqlite_url: str) -> None:
    with migrated(sqlite_url) as database, impatient_gateway(sqlite_url) as (gateway, _):
        gateway.open_session("s")
        gateway.finalize_turn("s", turn(1))
        before = contents(database)
        with database.write():
            for call in every_method(gateway):
                assert "database is locked" in fails_soon(call)
            # Readers wait for nobody.
            assert as_bytes(gateway.load_context("s").messages) == as_bytes(turn(1))
        assert contents(database) == before
        assert not gateway.finalize_turn("s", turn(2), event_id="e").repeated


def test_a_file_that_cannot_be_written_is_one_error(sqlite_url: str) -> None:
    with migrated(sqlite_url) as database, impatient_gateway(sqlite_url) as (gateway, _):
        gateway.open_session("s")
        gateway.finalize_turn("s", turn(1))
        before = contents(database)
        with impatient_gateway(sqlite_url, query_only=1) as (reading, _):
            for call in every_method(reading):
                fails_soon(call)
            assert as_bytes(reading.load_context("s").messages) == as_bytes(turn(1))
        assert contents(database) == before


def test_a_full_disk_is_one_error_and_stores_nothing_of_the_turn(sqlite_url: str) -> None:
    large = [*turn(1), {"role": "assistant", "content": SECRET * 50_000}]
    with migrated(sqlite_url) as database:
        ((pages,),) = rows_of(database, "PRAGMA page_count")
        with impatient_gateway(sqlite_url, max_page_count=pages + 20) as (gateway, _):
            gateway.open_session("s")
            before = contents(database)
            assert "full" in fails_soon(lambda: gateway.finalize_turn("s", large, event_id="e"))
            assert contents(database) == before
            assert not gateway.finalize_turn("s", turn(1), event_id="e").repeated


def test_a_file_that_is_no_database_is_one_error(tmp_path: Path) -> None:
    path = tmp_path / "afterturn.db"
    path.write_bytes(b"not a database, " * 1000)
    fails_soon(lambda: Gateway(Settings(database_url=f"sqlite:///{path}")))
    assert path.read_bytes() == b"not a database, " * 1000


def test_a_file_whose_writer_died_in_the_middle_holds_what_was_committed(sqlite_url: str) -> None:
    with migrated(sqlite_url) as database, impatient_gateway(sqlite_url) as (gateway, _):
        gateway.open_session("s")
        gateway.finalize_turn("s", turn(1))
        before = contents(database)
        path = url_of(database).removeprefix("sqlite:///")
        writer = sqlite3.connect(path, isolation_level=None)
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("UPDATE sessions SET turns = 99")
        writer.close()
        assert contents(database) == before
        gateway.finalize_turn("s", turn(2))
