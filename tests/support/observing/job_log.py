"""A log of every change of state of every job, written by triggers of the database itself."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import text as sql

from storage.engine import Database
from tests.support.sessions.gateways import rows_of

_SQLITE = """
CREATE TABLE job_log (
    number INTEGER PRIMARY KEY AUTOINCREMENT, session_key INT, job_id INT, state TEXT, fence INT
);
CREATE TRIGGER log_jobs AFTER UPDATE ON jobs WHEN new.state <> old.state BEGIN
    INSERT INTO job_log (session_key, job_id, state, fence)
    VALUES (new.session_key, new.id, new.state, new.fence);
END
"""
_POSTGRESQL = """
CREATE TABLE job_log (
    number bigserial PRIMARY KEY, session_key bigint, job_id bigint, state text, fence bigint
);
CREATE FUNCTION log_job() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO job_log (session_key, job_id, state, fence)
    VALUES (new.session_key, new.id, new.state, new.fence);
    RETURN NULL;
END $$;
CREATE TRIGGER log_jobs AFTER UPDATE ON jobs FOR EACH ROW
    WHEN (new.state <> old.state) EXECUTE FUNCTION log_job()
"""


@dataclass(frozen=True, slots=True)
class Change:
    """A job came into a state; `fence` is the one that it has then."""

    session_key: int
    job_id: int
    state: str
    fence: int


def begin_log(database: Database) -> None:
    """Log from now on."""
    statements = _SQLITE if database.dialect == "sqlite" else _POSTGRESQL
    parts = [statements] if database.dialect == "postgresql" else statements.split(";\nCREATE")
    with database.write() as connection:
        for number, part in enumerate(parts):
            connection.execute(sql(part if number == 0 else f"CREATE{part}"))


def read_log(database: Database) -> list[Change]:
    """Return every change since the log was begun, in order."""
    return [
        Change(*row)
        for row in rows_of(
            database, "SELECT session_key, job_id, state, fence FROM job_log ORDER BY number"
        )
    ]


def check_one_at_a_time(changes: list[Change]) -> None:
    """Make sure that of each session one job ran at a time, and each claim had a new fence."""
    running: dict[int, int] = {}
    fences: dict[int, int] = {}
    for change in changes:
        if change.state == "running":
            assert change.session_key not in running, "two jobs of a session ran at once"
            assert change.fence == fences.get(change.job_id, 0) + 1, "a claim without a new fence"
            running[change.session_key] = change.job_id
        else:
            assert running.pop(change.session_key) == change.job_id
            assert change.fence == fences.get(change.job_id, 0) + 1, "written with an old fence"
            fences[change.job_id] = change.fence
    assert not running
