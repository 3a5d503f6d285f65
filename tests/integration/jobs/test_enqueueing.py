"""Enqueueing: one open job per session and kind, and which trigger decides."""

from __future__ import annotations

from functools import partial

import pytest

from storage.engine import Database
from storage.jobs import JobKind, JobState, job_records
from tests.support.observing.at_once import at_once, succeeded
from tests.support.sessions.stored_jobs import Worker
from tests.support.sessions.stored_session import StoredSession, dump

pytestmark = pytest.mark.both_databases

MINUTE = 60_000


@pytest.fixture
def worker(database: Database) -> Worker:
    return Worker(database)


@pytest.fixture
def session(database: Database) -> StoredSession:
    return StoredSession.create(database)


def test_a_new_job_is_due_at_once_and_unclaimed(worker: Worker, session: StoredSession) -> None:
    due = session.enqueue(JobKind.MICRO, queue="micro", trigger="a person", options={"keep": 2})
    job = worker.job(due.id)
    assert (due.kind, due.queue, due.trigger) == (JobKind.MICRO, "micro", "a person")
    assert (job.state, job.attempt, job.fence, job.again) == (JobState.DUE, 0, 0, False)
    assert (job.lease_owner, job.lease_until, job.reason) == (None, None, None)
    assert worker.take(due).options == {"keep": 2}


def test_a_due_job_stands_for_all_that_comes_before_it_is_claimed(
    worker: Worker, session: StoredSession
) -> None:
    first = session.enqueue()
    assert [session.enqueue().id for _ in range(3)] == [first.id] * 3
    assert len(worker.jobs_of(session.key)) == 1


def test_kinds_and_sessions_have_jobs_of_their_own(
    database: Database, worker: Worker, session: StoredSession
) -> None:
    other = StoredSession.create(database, "other")
    made = {
        session.enqueue().id,
        session.enqueue(JobKind.MICRO).id,
        other.enqueue().id,
        other.enqueue(JobKind.MICRO).id,
    }
    assert len(made) == 4
    assert {job.id for job in worker.jobs_of(session.key)} < made


def test_work_that_arrives_while_a_job_runs_makes_it_due_again(
    worker: Worker, session: StoredSession
) -> None:
    claim = worker.take(session.enqueue())
    assert session.enqueue().id == claim.job_id
    running = worker.job(claim.job_id)
    assert (running.state, running.again) == (JobState.RUNNING, True)
    assert worker.finish(claim)
    again = worker.job(claim.job_id)
    assert (again.state, again.again, again.attempt) == (JobState.DUE, False, 0)
    assert worker.claim(claim.job_id) is not None


def test_a_finished_job_is_done_and_the_next_work_gets_a_new_one(
    worker: Worker, session: StoredSession
) -> None:
    claim = worker.take(session.enqueue())
    assert not worker.finish(claim)
    new = session.enqueue()
    assert new.id > claim.job_id
    assert [job.state for job in worker.jobs_of(session.key)] == [JobState.DONE, JobState.DUE]


def test_work_that_arrives_while_a_job_runs_outlives_its_death(
    worker: Worker, session: StoredSession
) -> None:
    claim = worker.take(session.enqueue())
    session.enqueue(queue="q", trigger="t", options={"a": 1})
    worker.dead_letter(claim)
    dead, new = worker.jobs_of(session.key)
    assert (dead.id, dead.state) == (claim.job_id, JobState.DEAD)
    assert (new.state, new.queue, new.trigger, new.attempt) == (JobState.DUE, "q", "t", 0)
    taken = worker.claim(new.id)
    assert taken is not None
    assert taken.options == {"a": 1}


def test_a_job_that_dies_with_nothing_new_leaves_no_open_one(
    worker: Worker, session: StoredSession
) -> None:
    worker.dead_letter(worker.take(session.enqueue()))
    assert [job.state for job in worker.jobs_of(session.key)] == [JobState.DEAD]


def test_a_stronger_trigger_decides_queue_options_and_an_earlier_time(
    worker: Worker, session: StoredSession
) -> None:
    waiting = session.enqueue(JobKind.MICRO, delay_ms=10 * MINUTE, options={"weak": 1})
    assert worker.claim(waiting.id) is None
    raised = session.enqueue(
        JobKind.MICRO, priority=5, queue="fast", trigger="a person", options={"strong": 1}
    )
    assert (raised.id, raised.queue, raised.trigger) == (waiting.id, "fast", "a person")
    claim = worker.take(raised)
    assert (claim.queue, claim.trigger, claim.priority) == ("fast", "a person", 5)
    assert claim.options == {"strong": 1}


def test_a_stronger_trigger_without_options_takes_those_of_the_weaker_away(
    worker: Worker, session: StoredSession
) -> None:
    session.enqueue(options={"weak": 1})
    assert worker.take(session.enqueue(priority=1)).options == {}


@pytest.mark.parametrize("priority", [0, 3])
def test_an_equal_or_weaker_trigger_changes_nothing(
    worker: Worker, session: StoredSession, priority: int
) -> None:
    first = session.enqueue(
        delay_ms=10 * MINUTE, priority=3, queue="q", trigger="first", options={"a": 1}
    )
    before = worker.job(first.id)
    again = session.enqueue(priority=priority, queue="other", trigger="second", options={"b": 2})
    assert (again.queue, again.trigger) == ("q", "first")
    assert worker.job(first.id) == before
    assert worker.claim(first.id) is None
    assert worker.after(10 * MINUTE + 1).take(first).options == {"a": 1}


def test_a_stronger_trigger_never_makes_a_job_wait_longer(
    worker: Worker, session: StoredSession
) -> None:
    session.enqueue()
    assert worker.claim(session.enqueue(priority=5, delay_ms=10 * MINUTE).id) is not None


def test_a_stronger_trigger_that_arrives_while_a_job_runs_does_not_wait_for_its_retry(
    worker: Worker, session: StoredSession
) -> None:
    claim = worker.take(session.enqueue(JobKind.MICRO))
    session.enqueue(JobKind.MICRO, priority=5, queue="fast", trigger="a person")
    worker.release(claim, delay_ms=10 * MINUTE)
    taken = worker.claim(claim.job_id)
    assert taken is not None
    assert (taken.queue, taken.trigger, taken.priority) == ("fast", "a person", 5)


@pytest.mark.parametrize("priority", [0, 3])
def test_an_equal_or_weaker_trigger_that_arrives_while_a_job_runs_waits_for_its_retry(
    worker: Worker, session: StoredSession, priority: int
) -> None:
    claim = worker.take(session.enqueue(priority=3))
    session.enqueue(priority=priority)
    worker.release(claim, delay_ms=10 * MINUTE)
    assert worker.claim(claim.job_id) is None
    assert worker.after(10 * MINUTE + 1).claim(claim.job_id) is not None


def test_after_it_was_served_a_strong_trigger_is_forgotten(
    worker: Worker, session: StoredSession
) -> None:
    worker.finish(worker.take(session.enqueue(priority=5, trigger="a person")))
    assert worker.take(session.enqueue()).trigger == "turn"


def test_threads_that_make_the_same_work_due_make_one_job(
    worker: Worker, session: StoredSession
) -> None:
    calls = [partial(session.enqueue, priority=number) for number in range(8)]
    assert len({due.id for due in succeeded(at_once(calls))}) == 1
    (job,) = worker.jobs_of(session.key)
    claim = worker.claim(job.id)
    assert claim is not None
    assert claim.priority == 7


def test_open_jobs_are_those_due_or_running_of_one_session_or_of_all(
    database: Database, worker: Worker
) -> None:
    for number in range(3):
        session = StoredSession.create(database, f"{number}")
        session.enqueue()
        claim = worker.take(session.enqueue(JobKind.MICRO, queue="micro"))
        if number == 0:
            worker.dead_letter(claim)
        if number == 1:
            worker.finish(claim)
    with database.read() as connection:
        assert len(job_records.open_jobs(connection)) == 4
        assert job_records.open_jobs(connection, session.key) == worker.jobs_of(session.key)


def test_a_job_of_another_session_is_left_alone(database: Database, worker: Worker) -> None:
    one, other = (StoredSession.create(database, name) for name in ("one", "other"))
    other.enqueue()
    before = dump(database)["jobs"]
    worker.dead_letter(worker.take(one.enqueue()))
    assert [row for row in dump(database)["jobs"] if row["session_key"] == other.key] == before
