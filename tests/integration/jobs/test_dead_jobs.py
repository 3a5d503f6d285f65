"""Dead jobs as operators look at them and decide about them, on both databases."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from storage import scheduling
from storage.engine import Database
from storage.jobs import DueJob, JobKind, JobState, dead_jobs
from storage.jobs.dead_jobs import DeadJob, Reason, Retried
from storage.scheduling import Place
from tests.support.observing.at_once import at_once, succeeded
from tests.support.sessions.gateways import assistant, rows_of, user
from tests.support.sessions.stored_jobs import Worker
from tests.support.sessions.stored_session import StoredSession

pytestmark = pytest.mark.both_databases

TURN = [user("Hi."), assistant("Hello.")]


@pytest.fixture
def session(database: Database) -> StoredSession:
    return StoredSession.create(database)


def died(session: StoredSession, kind: JobKind = JobKind.TURN, **more: Any) -> DueJob:
    """Make a job due in the session and let it fail for good."""
    due = session.enqueue(kind, **more)
    worker = Worker(session.database)
    worker.dead_letter(worker.take(due))
    return due


def listed(database: Database, **wanted: Any) -> list[DeadJob]:
    with database.read() as connection:
        return dead_jobs.page(connection, **{"limit": 100, **wanted})


def ids(found: Iterable[DeadJob]) -> list[int]:
    return [one.id for one in found]


def found(database: Database, job_id: int) -> DeadJob | None:
    with database.read() as connection:
        return dead_jobs.find(connection, job_id)


def retried(database: Database, *ids: int) -> list[Retried]:
    with database.write() as connection:
        return dead_jobs.retry(connection, database, ids)


def dropped(database: Database, *ids: int) -> list[int]:
    with database.write() as connection:
        return dead_jobs.drop(connection, database, ids)


def test_a_dead_job_says_what_it_was_for_and_how_it_ended(
    database: Database, session: StoredSession
) -> None:
    due = died(session, JobKind.BATCH, trigger="manual", priority=4, options={"keep_last": 2})
    [dead] = listed(database)
    assert dead == found(database, due.id)
    assert (dead.id, dead.owner, dead.session) == (due.id, "o", "s")
    assert (dead.kind, dead.queue, dead.trigger, dead.priority) == ("batch", "batchs", "manual", 4)
    assert dead.options == {"keep_last": 2}
    assert (dead.attempt, dead.reason, dead.trace) == (1, "KeyError", "frames")
    assert dead.created_at <= dead.failed_first_at <= dead.failed_last_at


def test_jobs_that_are_open_or_done_are_not_dead(
    database: Database, session: StoredSession
) -> None:
    worker = Worker(database)
    done = session.enqueue()
    worker.finish(worker.take(done))
    due = session.enqueue()
    assert listed(database) == []
    assert found(database, done.id) is None
    assert found(database, due.id) is None
    assert retried(database, done.id, due.id, 10**6) == []
    assert dropped(database, done.id, due.id, 10**6) == []
    assert worker.job(due.id).state is JobState.DUE


def test_dead_jobs_are_listed_page_by_page_newest_first(
    database: Database, session: StoredSession
) -> None:
    jobs = [died(session).id for _ in range(5)]
    first = ids(listed(database, limit=2))
    rest = ids(listed(database, limit=10, before=first[-1]))
    assert first + rest == jobs[::-1]


def test_dead_jobs_are_found_by_kind_reason_and_owner(
    database: Database, session: StoredSession
) -> None:
    turn, micro = died(session).id, died(session, JobKind.MICRO).id
    other = died(StoredSession.create(database, owner="ann")).id
    silent = died(session).id
    with database.write() as connection:
        connection.exec_driver_sql(
            f"UPDATE jobs SET reason = 'the worker went silent' WHERE id = {silent}"
        )
    assert ids(listed(database, kind="micro")) == [micro]
    assert ids(listed(database, owner="ann")) == [other]
    assert ids(listed(database, reason="the worker went silent")) == [silent]
    assert ids(listed(database, reason="KeyError", owner="o")) == [micro, turn]
    assert listed(database, reason="Key") == []
    with database.read() as connection:
        assert dead_jobs.reasons(connection) == [
            Reason("KeyError", 3),
            Reason("the worker went silent", 1),
        ]


def test_a_retried_job_is_due_again_as_it_was_and_no_longer_dead(
    database: Database, session: StoredSession
) -> None:
    dead = died(session, JobKind.BATCH, trigger="manual", priority=4, options={"keep_last": 2})
    [again] = retried(database, dead.id)
    assert again.dead == dead.id
    assert again.job.id != dead.id
    worker = Worker(database)
    job = worker.job(again.job.id)
    assert (job.kind, job.queue, job.trigger, job.priority) == (
        JobKind.BATCH,
        dead.queue,
        "manual",
        4,
    )
    assert job.options == {"keep_last": 2}
    assert (job.attempt, job.tries) == (0, 0)
    assert worker.notify() == [again.job]
    assert listed(database) == []
    closed = worker.jobs_of(session.key)[0]
    assert (closed.state, closed.reason) == (
        JobState.DONE,
        f"retried as job {again.job.id}: KeyError",
    )
    assert retried(database, dead.id) == []


def test_where_the_work_is_open_already_it_is_not_done_twice(
    database: Database, session: StoredSession
) -> None:
    first, second = died(session).id, died(session, trigger="manual", priority=3).id
    open_one = session.enqueue()
    assert [one.job.id for one in retried(database, second, first)] == [open_one.id] * 2
    job = Worker(database).job(open_one.id)
    assert (job.trigger, job.priority) == ("manual", 3)
    assert listed(database) == []


def test_a_dropped_job_is_closed_and_nothing_is_due(
    database: Database, session: StoredSession
) -> None:
    dead, other = died(session).id, died(session).id
    assert dropped(database, dead) == [dead]
    assert ids(listed(database)) == [other]
    assert Worker(database).notify() == []
    closed = Worker(database).jobs_of(session.key)[0]
    assert (closed.state, closed.reason) == (JobState.DONE, "dropped: KeyError")


def test_what_was_dropped_is_not_enqueued_by_a_scan(
    database: Database, session: StoredSession
) -> None:
    def undecided() -> list[Place]:
        with database.read() as connection:
            return scheduling.undecided(connection, after=Place(), limit=10)

    session.append(TURN)
    assert [place.key for place in undecided()] == [session.key]
    dropped(database, died(session).id)
    assert undecided() == []


def test_a_job_of_a_newer_version_is_listed_and_may_be_dropped_but_not_retried(
    database: Database, session: StoredSession
) -> None:
    dead = died(session).id
    with database.write() as connection:
        connection.exec_driver_sql(f"UPDATE jobs SET kind = 'dream' WHERE id = {dead}")
    assert [one.kind for one in listed(database)] == ["dream"]
    assert retried(database, dead) == []
    assert ids(listed(database)) == [dead]
    assert dropped(database, dead) == [dead]


def test_two_operators_who_retry_at_once_make_it_due_once(
    database: Database, session: StoredSession
) -> None:
    sessions = [StoredSession.create(database, f"s{number}") for number in range(20)]
    dead = [died(one).id for one in sessions]
    first, second = succeeded(
        at_once([lambda: retried(database, *dead), lambda: retried(database, *reversed(dead))])
    )
    assert sorted(one.dead for one in (*first, *second)) == dead
    assert listed(database) == []
    assert rows_of(database, "SELECT count(*) FROM jobs WHERE state = 'due'") == [(20,)]
