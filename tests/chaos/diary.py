"""A diary that the database itself keeps of a chaos run, by triggers.

It records each change of a job's state, and each answer and summary that is stored, with the
lease owner of the session's running job at that moment and, on PostgreSQL, with the name of the
process that wrote.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import text as sql

from storage.engine import Database
from tests.support.sessions.gateways import rows_of

WRITER = "chaos.writer"
"""The setting by which a process gives its name to PostgreSQL."""

_COLUMNS = (
    "what TEXT, session_key BIGINT, job_id BIGINT, kind TEXT, queue TEXT, former TEXT, state TEXT, "
    "fence BIGINT, attempt BIGINT, lease_owner TEXT, reason TEXT, writer TEXT, at BIGINT"
)
_NAMES = (
    "what, session_key, job_id, kind, queue, former, state, fence, attempt, lease_owner, reason, "
    "writer"
)
_OF_JOB = (
    "'job', new.session_key, new.id, new.kind, new.queue, old.state, new.state, new.fence, "
    "new.attempt, coalesce(new.lease_owner, old.lease_owner), new.reason"
)
_STORED = (
    "NULL, NULL, NULL, NULL, NULL, "
    "(SELECT lease_owner FROM jobs WHERE session_key = new.session_key AND state = 'running'), NULL"
)
_OF_SUMMARY = f"'summary', new.session_key, new.id, new.kind, {_STORED}"
_OF_ANSWER = f"'answer', new.session_key, NULL, NULL, {_STORED}"

_SQLITE_NOW = "CAST((julianday('now') - 2440587.5) * 86400000.0 AS INTEGER)"
_SQLITE = (
    f"CREATE TABLE chaos_diary (number INTEGER PRIMARY KEY AUTOINCREMENT, {_COLUMNS})",
    "CREATE TRIGGER chaos_jobs AFTER UPDATE ON jobs WHEN new.state <> old.state BEGIN "
    f"INSERT INTO chaos_diary ({_NAMES}, at) SELECT {_OF_JOB}, NULL, {_SQLITE_NOW}; END",
    "CREATE TRIGGER chaos_summaries AFTER INSERT ON summaries BEGIN "
    f"INSERT INTO chaos_diary ({_NAMES}, at) SELECT {_OF_SUMMARY}, NULL, {_SQLITE_NOW}; END",
    "CREATE TRIGGER chaos_answers AFTER INSERT ON answers BEGIN "
    f"INSERT INTO chaos_diary ({_NAMES}, at) SELECT {_OF_ANSWER}, NULL, {_SQLITE_NOW}; END",
)

_POSTGRESQL_NOW = "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)"
_POSTGRESQL_WRITER = f"current_setting('{WRITER}', true)"
_POSTGRESQL = (
    f"CREATE TABLE chaos_diary (number bigserial PRIMARY KEY, {_COLUMNS})",
    "CREATE FUNCTION chaos_job() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
    f"INSERT INTO chaos_diary ({_NAMES}, at) "
    f"SELECT {_OF_JOB}, {_POSTGRESQL_WRITER}, {_POSTGRESQL_NOW}; RETURN NULL; END $$",
    "CREATE TRIGGER chaos_jobs AFTER UPDATE ON jobs FOR EACH ROW "
    "WHEN (new.state <> old.state) EXECUTE FUNCTION chaos_job()",
    "CREATE FUNCTION chaos_summary() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
    f"INSERT INTO chaos_diary ({_NAMES}, at) "
    f"SELECT {_OF_SUMMARY}, {_POSTGRESQL_WRITER}, {_POSTGRESQL_NOW}; RETURN NULL; END $$",
    "CREATE TRIGGER chaos_summaries AFTER INSERT ON summaries FOR EACH ROW "
    "EXECUTE FUNCTION chaos_summary()",
    "CREATE FUNCTION chaos_answer() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
    f"INSERT INTO chaos_diary ({_NAMES}, at) "
    f"SELECT {_OF_ANSWER}, {_POSTGRESQL_WRITER}, {_POSTGRESQL_NOW}; RETURN NULL; END $$",
    "CREATE TRIGGER chaos_answers AFTER INSERT ON answers FOR EACH ROW "
    "EXECUTE FUNCTION chaos_answer()",
)


class What(StrEnum):
    JOB = "job"
    SUMMARY = "summary"
    ANSWER = "answer"


@dataclass(frozen=True, slots=True)
class Entry:
    """A job (`id`) that came from state `former` into `state`, or a summary (`id`) or an answer
    that was stored. `at` is in milliseconds since 1970, `lease_owner` that of the job, or of the
    session's running one."""

    what: What
    session_key: int
    id: int
    kind: str | None
    queue: str | None
    former: str | None
    state: str | None
    fence: int | None
    attempt: int | None
    lease_owner: str | None
    reason: str | None
    writer: str | None
    at: int

    @property
    def claimed(self) -> bool:
        return self.state == "running"

    @property
    def left(self) -> bool:
        """Whether a job was running until now."""
        return self.former == "running"

    @property
    def rescued(self) -> bool:
        """Whether the job was taken from an owner whose lease had ended.

        A reason stays when a later claim is finished, but then the attempts are forgotten.
        """
        silent = self.reason == "the worker went silent"
        return self.left and silent and self.state != "done" and bool(self.attempt)

    @property
    def given_back(self) -> bool:
        """Whether the owner gave the job back as it stopped, with attempts of others before it."""
        return self.left and self.state == "due" and self.reason is None and bool(self.attempt)


def begin_diary(database: Database) -> None:
    """Keep it from now on."""
    with database.write() as connection:
        for statement in _SQLITE if database.dialect == "sqlite" else _POSTGRESQL:
            connection.execute(sql(statement))


def read_diary(database: Database) -> list[Entry]:
    """Everything so far, in order."""
    rows = rows_of(database, f"SELECT {_NAMES}, at FROM chaos_diary ORDER BY number")
    return [Entry(What(row[0]), *row[1:]) for row in rows]
