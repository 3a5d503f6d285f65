"""How much work waits, on both databases."""

from __future__ import annotations

import pytest

from producers import Gateway
from storage.engine import Database
from storage.jobs import backlog
from storage.jobs.backlog import Backlog
from tests.support.sessions.gateways import user

pytestmark = pytest.mark.both_databases


def measured(database: Database) -> Backlog:
    with database.read() as connection:
        return backlog.measure(connection, database)


def changed(database: Database, statement: str) -> None:
    with database.write() as connection:
        connection.exec_driver_sql(statement)


def test_an_empty_table_holds_no_work(database: Database) -> None:
    assert measured(database) == Backlog(0, 0, 0, 0, None)


def test_jobs_are_counted_by_what_they_wait_for(database: Database, gateway: Gateway) -> None:
    for name in ("due", "later", "running", "dead", "done"):
        gateway.open_session(name)
        gateway.finalize_turn(name, [user("Hi.")])
    keys = "session_key = (SELECT key FROM sessions WHERE id = '{}')"
    for name in ("running", "dead", "done"):
        changed(database, f"UPDATE jobs SET state = '{name}' WHERE {keys.format(name)}")
    changed(database, f"UPDATE jobs SET run_at = run_at + 3600000 WHERE {keys.format('later')}")
    changed(database, f"UPDATE jobs SET run_at = run_at - 60000 WHERE {keys.format('due')}")
    found = measured(database)
    assert (found.due, found.waiting, found.running, found.dead) == (1, 1, 1, 1)
    assert found.oldest_ms is not None
    assert 60_000 <= found.oldest_ms < 120_000
