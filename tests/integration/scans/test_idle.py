"""Idle sessions are compacted, once each time that they become idle."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import text as sql

from storage import guards, scheduling
from storage.engine import Database
from storage.guards import GuardName
from storage.outcomes import Outcome
from storage.scheduling import Place
from tests.support.observing.counting import counted
from tests.support.sessions.conversations import turn
from tests.support.sessions.decisions import SMALL, Case
from tests.support.sessions.gateways import rows_of, url_of
from tests.support.sessions.play import Play, Turn, playing
from workers.scans.idle import MOST_WAITING, IdleScan, scan_idle

pytestmark = pytest.mark.both_databases

HOUR = 3_600_000
MINUTE = 60_000
IDLE: dict[str, Any] = {**SMALL, "idle_compact_after_seconds": 3600.0, "micro_compact": False}


@contextmanager
def later(database: Database, ms: int, **settings: Any) -> Iterator[Play]:
    """Yield a process that starts `ms` milliseconds from now."""
    with playing(url_of(database), offset_ms=ms, **{**IDLE, **settings}) as play:
        yield play


def idle_jobs(database: Database) -> list[tuple[Any, ...]]:
    return rows_of(
        database,
        "SELECT queue, priority, state FROM jobs WHERE kind = 'batch' AND trigger = 'idle'",
    )


def spoken(database: Database, turns: int = 12) -> None:
    """Create a session of about 4,000 tokens, over its threshold, whose turns are decided about."""
    with later(database, 0) as play:
        Case(play).say(turns)
        play.work_off()


def test_a_session_is_compacted_when_it_was_idle_for_as_long_as_configured(
    database: Database,
) -> None:
    spoken(database)
    with later(database, HOUR - MINUTE) as play:
        assert scan_idle(play.context) == IdleScan()
    with later(database, HOUR) as play:
        assert scan_idle(play.context) == IdleScan(checked=1, enqueued=1)
        assert idle_jobs(database) == [("recompact", 5, "due")]
        (worked,) = play.work_off()
        assert [one.outcome for one in worked.passes] == [Outcome.COMPACTED]


def test_it_is_looked_at_once_until_it_was_active_again(database: Database) -> None:
    spoken(database)
    with later(database, HOUR) as play:
        assert scan_idle(play.context).enqueued == 1
        play.work_off()
    for hours in (2, 3, 100):
        with later(database, hours * HOUR) as play:
            assert scan_idle(play.context) == IdleScan()
    with later(database, 100 * HOUR) as play:
        Case(play).say(12)
        play.work_off()
        assert scan_idle(play.context) == IdleScan()
    with later(database, 101 * HOUR) as play:
        assert scan_idle(play.context).enqueued == 1


def test_a_small_one_is_looked_at_once_and_left_alone(database: Database) -> None:
    spoken(database, turns=1)
    with later(database, HOUR) as play:
        assert scan_idle(play.context) == IdleScan(checked=1)
        assert scan_idle(play.context) == IdleScan()
    assert idle_jobs(database) == []


@pytest.mark.parametrize("settings", [{"idle_compact_after_seconds": 0.0}, {"enabled": False}])
def test_nothing_is_looked_at_while_it_is_switched_off(
    database: Database, settings: dict[str, Any]
) -> None:
    spoken(database)
    with later(database, HOUR, **settings) as play:
        assert scan_idle(play.context) == IdleScan()
    with later(database, HOUR) as play:
        assert scan_idle(play.context).enqueued == 1


def test_a_session_that_rests_after_a_failure_is_looked_at_again(database: Database) -> None:
    spoken(database)
    with later(database, HOUR) as play:
        case = Case(play)
        case.put(GuardName.COOLDOWN, hold_ms=10 * MINUTE)
        with counted(play.database) as work:
            assert scan_idle(play.context) == IdleScan(checked=1)
        assert work.rows_written == 0
    with later(database, HOUR + 10 * MINUTE) as play:
        assert scan_idle(play.context).enqueued == 1


@pytest.mark.parametrize("column", ["ended_at", "archived_at"])
def test_a_session_that_has_ended_is_left_alone_until_it_goes_on(
    database: Database, column: str
) -> None:
    spoken(database)
    with database.write() as connection:
        connection.execute(sql(f"UPDATE sessions SET {column} = active_at"))
    with later(database, HOUR) as play:
        assert scan_idle(play.context) == IdleScan()
        with database.write() as connection:
            connection.execute(sql(f"UPDATE sessions SET {column} = NULL"))
        assert scan_idle(play.context).enqueued == 1


def test_a_pass_that_waited_until_somebody_came_back_does_nothing(database: Database) -> None:
    spoken(database)
    with later(database, HOUR) as play:
        assert scan_idle(play.context).enqueued == 1
        play.say(play.gateway.open_session("s"), Turn(turn(99), []))
        outcomes = [one for worked in play.work_off() for one in worked.passes]
        assert [one.outcome for one in outcomes] == [Outcome.SUPPRESSED]
    with later(database, 2 * HOUR) as play:
        assert scan_idle(play.context).enqueued == 1


def test_a_session_that_comes_back_while_it_is_looked_at_is_not_taken_for_looked_at(
    database: Database,
) -> None:
    spoken(database)
    with later(database, HOUR) as play:
        with play.database.read() as connection:
            page = scheduling.idle(connection, play.database, idle_ms=HOUR, after=Place(), limit=9)
        Case(play).say(12)
        play.work_off()
        with play.database.write() as connection:
            scheduling.note_idle_look(connection, page)
    with later(database, 2 * HOUR) as play:
        assert scan_idle(play.context).enqueued == 1


def many(database: Database, count: int, *, tokens: int = 200_000) -> None:
    """Create `count` sessions, each idle for longer than the one before."""
    with database.write() as connection:
        connection.execute(
            sql(
                "INSERT INTO sessions (owner, id, source, started_at, active_at, idle_since,"
                " live_tokens) WITH RECURSIVE numbers (n) AS (SELECT 0 UNION ALL"
                f" SELECT n + 1 FROM numbers WHERE n + 1 < {count})"
                " SELECT 'o', 's' || n, 'cli', 1, 1000 - n / 2, 1000 - n / 2,"
                f" {tokens} FROM numbers"
            )
        )


def test_more_than_a_page_is_looked_at_longest_idle_first(database: Database) -> None:
    many(database, 450)
    with later(database, 0) as play:
        assert scan_idle(play.context) == IdleScan(450, 450)
        assert scan_idle(play.context) == IdleScan()
    keys = rows_of(database, "SELECT session_key FROM jobs ORDER BY id LIMIT 200")
    oldest = 'SELECT "key" FROM sessions ORDER BY active_at, "key" LIMIT 200'
    assert {key for (key,) in keys} == {key for (key,) in rows_of(database, oldest)}


def test_those_that_rest_do_not_hide_those_behind_them(database: Database) -> None:
    many(database, 450)
    with later(database, 0) as play:
        query = 'SELECT "key" FROM sessions ORDER BY active_at, "key" LIMIT 250'
        resting = [key for (key,) in rows_of(database, query)]
        with database.write() as connection:
            for key in resting:
                guards.put(connection, database, key, GuardName.COOLDOWN, hold_ms=HOUR)
        assert scan_idle(play.context) == IdleScan(checked=450, enqueued=200)
        assert scan_idle(play.context) == IdleScan(checked=250)


def test_while_much_bulk_work_waits_none_is_added(database: Database) -> None:
    many(database, 3)
    with database.write() as connection:
        connection.execute(
            sql(
                "INSERT INTO sessions (owner, id, source, started_at, active_at, ended_at)"
                " WITH RECURSIVE numbers (n) AS (SELECT 0 UNION ALL"
                f" SELECT n + 1 FROM numbers WHERE n + 1 < {MOST_WAITING})"
                " SELECT 'p', 's' || n, 'cli', 1, 1, 1 FROM numbers"
            )
        )
        connection.execute(
            sql(
                "INSERT INTO jobs (session_key, owner, kind, queue, trigger, run_at, created_at,"
                " updated_at) SELECT \"key\", owner, 'batch', 'recompact', 'idle', 1, 1, 1"
                " FROM sessions WHERE owner = 'p'"
            )
        )
    with later(database, 0) as play:
        assert scan_idle(play.context) == IdleScan()
        with database.write() as connection:
            connection.execute(sql("DELETE FROM jobs WHERE id = (SELECT min(id) FROM jobs)"))
        assert scan_idle(play.context).enqueued == 3


def test_nothing_to_look_at_takes_no_write_lock(database: Database) -> None:
    with later(database, 0) as play:
        Case(play).say(12)
        play.work_off()
        with counted(play.database) as work:
            assert scan_idle(play.context) == IdleScan()
        assert work.rows_written == 0
        assert not work.writes
