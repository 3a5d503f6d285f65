"""Which jobs are notified, and how often."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from storage.engine import Database
from storage.jobs import DueJob, JobKind
from tests.support.observing.at_once import at_once, succeeded
from tests.support.sessions.stored_jobs import AGAIN_MS, LEASE_MS, Worker
from tests.support.sessions.stored_session import StoredSession, on_postgresql

pytestmark = pytest.mark.both_databases

MINUTE = 60_000


@pytest.fixture
def worker(database: Database) -> Worker:
    return Worker(database)


@pytest.fixture
def session(database: Database) -> StoredSession:
    return StoredSession.create(database)


def make_many(database: Database, sessions: int) -> list[DueJob]:
    return [StoredSession.create(database, f"{n}").enqueue() for n in range(sessions)]


def ids(due: list[DueJob]) -> list[int]:
    return [job.id for job in due]


def test_a_due_job_without_a_notification_gets_one(worker: Worker, session: StoredSession) -> None:
    due = session.enqueue(JobKind.MICRO, queue="micro", trigger="turn")
    assert worker.any_due()
    assert worker.notify() == [due]
    assert due == DueJob(due.id, JobKind.MICRO, "micro", "turn", session.record().id)


def test_a_job_is_notified_once_in_a_while(worker: Worker, session: StoredSession) -> None:
    due = session.enqueue()
    assert ids(worker.notify()) == [due.id]
    assert not worker.any_due()
    assert worker.notify() == []
    assert worker.after(AGAIN_MS - 5000).notify() == []
    assert not worker.after(AGAIN_MS - 5000).any_due()
    assert worker.after(AGAIN_MS).any_due()
    assert ids(worker.after(AGAIN_MS).notify()) == [due.id]
    assert worker.after(AGAIN_MS).notify() == []


@pytest.mark.parametrize(
    ("waited_seconds", "pause_seconds"), [(0, 30), (30, 30), (60, 60), (200, 200), (4000, 300)]
)
def test_a_job_that_waits_for_workers_is_notified_ever_more_rarely(
    worker: Worker, session: StoredSession, waited_seconds: int, pause_seconds: int
) -> None:
    due = session.enqueue(notified=True)
    with worker.database.write() as connection:
        connection.execute(text(f"UPDATE jobs SET run_at = notified_at - {1000 * waited_seconds}"))
    early = worker.after(1000 * pause_seconds - 10_000)
    assert not early.any_due()
    assert early.notify() == []
    late = worker.after(1000 * pause_seconds)
    assert late.any_due()
    assert late.notify() == [due]


def test_a_notification_by_the_caller_counts(worker: Worker, session: StoredSession) -> None:
    due = session.enqueue(notified=True)
    assert worker.notify() == []
    assert ids(worker.after(AGAIN_MS).notify()) == [due.id]


def test_a_notification_for_a_job_that_waits_does_not_count(
    worker: Worker, session: StoredSession
) -> None:
    """The job must be notified again when its time has come."""
    due = session.enqueue(delay_ms=1000, notified=True)
    session.enqueue(notified=True)
    assert worker.notify() == []
    assert ids(worker.after(1000).notify()) == [due.id]


def test_a_notification_for_a_job_that_failed_and_waits_does_not_count(
    worker: Worker, session: StoredSession
) -> None:
    due = session.enqueue(notified=True)
    worker.release(worker.take(due), delay_ms=1000)
    session.enqueue(notified=True)
    assert ids(worker.after(1000).notify()) == [due.id]


def test_a_notification_for_a_job_that_runs_does_not_count_once_it_is_due_again(
    worker: Worker, session: StoredSession
) -> None:
    claim = worker.take(session.enqueue())
    session.enqueue(notified=True)
    assert worker.finish(claim)
    assert ids(worker.notify()) == [claim.job_id]


def test_neither_running_nor_closed_nor_waiting_jobs_are_notified(
    database: Database, worker: Worker
) -> None:
    running, done, dead, waiting = make_many(database, 4)
    worker.take(running)
    worker.finish(worker.take(done))
    worker.dead_letter(worker.take(dead))
    worker.release(worker.take(waiting), delay_ms=MINUTE)
    assert not worker.any_due()
    assert worker.notify() == []
    assert ids(worker.after(MINUTE - 5000).notify()) == []


def test_a_lease_that_has_ended_is_something_to_do(worker: Worker, session: StoredSession) -> None:
    worker.take(session.enqueue())
    assert not worker.after(LEASE_MS - 5000).any_due()
    assert worker.after(LEASE_MS + 1).any_due()


def test_the_strongest_come_first_then_those_that_wait_longest(
    database: Database, worker: Worker
) -> None:
    due = make_many(database, 12)
    with database.write() as connection:
        for job in due:
            priority, age = job.id % 3, job.id * 7 % 12
            connection.execute(
                text(
                    f"UPDATE jobs SET priority = {priority}, run_at = run_at - {age * MINUTE}"
                    f" WHERE id = {job.id}"
                )
            )
    order = sorted(ids(due), key=lambda i: (-(i % 3), -(i * 7 % 12)))
    assert ids(worker.notify(limit=5)) == order[:5]
    assert ids(worker.notify()) == order[5:]


def test_no_more_are_given_than_asked_for(database: Database, worker: Worker) -> None:
    due = ids(make_many(database, 7))
    pages = [ids(worker.notify(limit=3)) for _ in range(4)]
    assert [len(page) for page in pages] == [3, 3, 1, 0]
    assert sorted(job for page in pages for job in page) == due


def test_four_reconcilers_at_once_notify_once_of_each_job(
    database: Database, worker: Worker
) -> None:
    due = ids(make_many(database, 40))

    def reconcile() -> list[list[int]]:
        return [ids(worker.notify(limit=4)) for _ in range(12)]

    pages = [page for taken in succeeded(at_once([reconcile] * 4)) for page in taken]
    assert max(map(len, pages)) == 4
    notified = [job for page in pages for job in page]
    assert len(notified) == len(set(notified))
    assert sorted([*notified, *ids(worker.notify())]) == due


@on_postgresql
def test_a_job_that_somebody_claims_right_now_is_not_waited_for(
    database: Database,
) -> None:
    worker = Worker(database)
    one, other = make_many(database, 2)
    with database.write() as connection:
        connection.execute(text(f"UPDATE jobs SET fence = fence WHERE id = {one.id}"))
        assert ids(worker.notify()) == [other.id]
    assert ids(worker.notify()) == [one.id]


def test_a_session_is_notified_of_what_is_due_in_it(database: Database, worker: Worker) -> None:
    session, other = (StoredSession.create(database, name) for name in ("one", "other"))
    other.enqueue()
    assert worker.due_in(session.key) == []
    micro = session.enqueue(JobKind.MICRO, priority=1, notified=True)
    turn = session.enqueue(delay_ms=MINUTE)
    assert worker.due_in(session.key) == [micro]
    assert worker.after(MINUTE).due_in(session.key) == [micro, turn]
    worker.take(micro)
    assert worker.after(MINUTE).due_in(session.key) == [turn]


def test_jobs_of_a_newer_version_are_left_to_its_workers(
    database: Database, worker: Worker, session: StoredSession
) -> None:
    session.enqueue()
    with database.write() as connection:
        connection.execute(text("UPDATE jobs SET kind = 'from tomorrow'"))
    assert not worker.any_due()
    assert worker.notify() == []
