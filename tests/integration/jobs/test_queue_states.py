"""Paused queues: nothing is notified or claimed there, and nothing is lost."""

from __future__ import annotations

import pytest

from storage import jobs
from storage.engine import Database
from storage.jobs import JobKind, JobState, queue_states
from tests.support.sessions.gateways import url_of
from tests.support.sessions.stored_jobs import AGAIN_MS, Worker
from tests.support.sessions.stored_session import StoredSession
from workers.runtime.context import WorkerContext
from workers.runtime.jobs import NotClaimed, work_next
from workers.settings import Settings, SettingsSource
from workers.summariser.extractive.local import LocalSummariser

pytestmark = pytest.mark.both_databases


@pytest.fixture
def worker(database: Database) -> Worker:
    return Worker(database)


@pytest.fixture
def session(database: Database) -> StoredSession:
    return StoredSession.create(database)


def pause(database: Database, *names: str, reason: str = "") -> None:
    with database.write() as connection:
        queue_states.pause(connection, database, names, reason=reason)


def resume(database: Database, *names: str) -> list[str]:
    with database.write() as connection:
        return queue_states.resume(connection, names)


def paused(database: Database) -> list[tuple[str, str]]:
    with database.read() as connection:
        return [(queue.name, queue.reason) for queue in queue_states.paused(connection)]


def test_a_paused_queue_gets_no_notification_and_no_claim(
    database: Database, worker: Worker, session: StoredSession
) -> None:
    turn, micro = session.enqueue(), session.enqueue(JobKind.MICRO)
    pause(database, turn.queue)
    assert worker.notify() == [micro]
    assert not worker.any_due()
    assert worker.due_in(session.key) == [micro]
    assert worker.claim(turn.id) is None
    assert worker.claim(micro.id) is not None


def test_a_notification_for_a_paused_queue_works_nothing_of_it(
    database: Database, worker: Worker, session: StoredSession
) -> None:
    due = session.enqueue(notified=True)
    StoredSession.create(database, owner="another").enqueue(notified=True)
    pause(database, due.queue)
    settings = SettingsSource.fixed(Settings(database_url=url_of(database)))
    assert work_next(WorkerContext(database, settings, LocalSummariser()), due.id) == NotClaimed()
    assert worker.job(due.id).attempt == 0


def test_what_runs_goes_on_and_what_arrives_is_kept(
    database: Database, worker: Worker, session: StoredSession
) -> None:
    claim = worker.take(session.enqueue())
    pause(database, "turns")
    assert worker.renew(claim)
    session.enqueue()
    assert worker.finish(claim)
    assert worker.job(claim.job_id).state is JobState.DUE
    assert worker.claim(claim.job_id) is None


def test_a_resumed_queue_is_notified_again(
    database: Database, worker: Worker, session: StoredSession
) -> None:
    due = session.enqueue(notified=True)
    pause(database, "turns", "batch")
    later = worker.after(AGAIN_MS)
    assert later.notify() == []
    assert resume(database, "turns", "micro") == ["turns"]
    assert paused(database) == [("batch", "")]
    assert later.notify() == [due]
    assert later.claim(due.id) is not None


def test_a_pause_says_why_and_since_when(database: Database) -> None:
    pause(database, "turns", reason="an upgrade")
    with database.read() as connection:
        (first,) = queue_states.paused(connection)
    pause(database, "turns", "micro", reason="still the upgrade")
    with database.read() as connection:
        micro, second = queue_states.paused(connection)
        assert queue_states.is_paused(connection, "micro")
        assert not queue_states.is_paused(connection, "batch")
    assert (second.name, second.since, second.reason) == ("turns", first.since, "still the upgrade")
    assert micro.since >= first.since > 0
    assert resume(database, "turns", "micro") == ["micro", "turns"]
    assert resume(database, "turns") == []
    pause(database, "turns")
    assert paused(database) == [("turns", "")]


def test_a_lease_that_ended_is_rescued_in_a_paused_queue_too(
    database: Database, worker: Worker, session: StoredSession
) -> None:
    claim = worker.take(session.enqueue())
    pause(database, "turns")
    with database.write() as connection:
        assert jobs.fence_out(connection, database, session.key, JobKind.TURN)
    assert worker.job(claim.job_id).state is JobState.DUE
    assert worker.notify() == []
