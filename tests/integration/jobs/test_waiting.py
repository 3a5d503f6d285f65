"""What a waiting caller sees of a job: its state, and its tries since then."""

from __future__ import annotations

import pytest
from sqlalchemy import Connection

from storage import attempts, jobs
from storage.attempts import AttemptRecord
from storage.engine import Database
from storage.jobs import Ended, JobKind, JobState, job_records
from tests.support.sessions.stored_session import StoredSession, later

pytestmark = pytest.mark.both_databases


@pytest.fixture
def session(database: Database) -> StoredSession:
    return StoredSession.create(database)


def try_of(job_id: int | None, outcome: str) -> AttemptRecord:
    return AttemptRecord(
        job_id=job_id,
        kind="batch",
        trigger="manual",
        outcome=outcome,
        messages_before=9,
        messages_after=4,
        tokens_before=900,
        tokens_after=400,
        cursor=0,
        passes=1,
        tokens_saved=500,
        threshold_tokens=1000,
    )


def record(session: StoredSession, *tries: AttemptRecord) -> None:
    with session.database.write() as connection:
        for one in tries:
            attempts.record(connection, session.database, session.key, one)


def test_tries_of_a_job_since_a_number_come_oldest_first(
    session: StoredSession, database: Database
) -> None:
    other = StoredSession.create(database, "other")
    with database.read() as connection:
        assert attempts.last_id(connection, session.key) == 0
    record(session, try_of(7, "failed"))
    with database.read() as connection:
        after = attempts.last_id(connection, session.key)
    record(session, try_of(7, "failed"), try_of(8, "nothing_due"), try_of(7, "compacted"))
    record(session, try_of(None, "absorbed"))
    record(other, try_of(7, "stale"))
    with database.read() as connection:
        since = attempts.of_job(connection, session.key, 7, after=after)
        assert since == [try_of(7, "failed"), try_of(7, "compacted")]
        assert len(attempts.of_job(connection, session.key, 7, after=0)) == 3
        last = attempts.last_id(connection, session.key)
        assert attempts.of_job(connection, session.key, 7, after=last) == []


def test_a_job_stands_due_later_running_and_closed(
    session: StoredSession, database: Database
) -> None:
    def overview(connection: Connection) -> job_records.JobOverview:
        found = job_records.standing(connection, database, job.id)
        assert found is not None
        return found

    job = session.enqueue(JobKind.BATCH, delay_ms=60_000)
    with database.read() as connection:
        waiting = overview(connection)
        assert (waiting.state, waiting.is_open) == (JobState.DUE, True)
        assert 55_000 < waiting.left_ms <= 60_000
        then = job_records.standing(connection, later(database, 61_000), job.id)
        assert then is not None
        assert then.left_ms == 0
    with later(database, 61_000).write() as connection:
        claim = jobs.claim(
            connection,
            later(database, 61_000),
            job.id,
            lease_owner="h",
            lease_ms=60_000,
            deadline_ms=60_000,
        )
    assert claim is not None
    with database.write() as connection:
        assert overview(connection).state is JobState.RUNNING
        jobs.release(
            connection, database, claim, delay_ms=5000, reason="timeout", ended=Ended.CRASHED
        )
        assert overview(connection).reason == "timeout"
    with database.read() as connection:
        assert job_records.standing(connection, database, job.id + 1) is None
