"""Owners are served round robin, no matter which has more due."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import text as sql

from storage import jobs
from storage.engine import Database
from storage.jobs import DueJob, JobKind
from tests.support.observing.counting import counted
from tests.support.sessions.gateways import migrated, url_of
from tests.support.sessions.stored_jobs import LEASE_MS, Worker
from tests.support.sessions.stored_session import StoredSession
from workers.runtime.context import WorkerContext
from workers.runtime.jobs import Crashed, NotClaimed, Worked, work_next
from workers.settings import Settings, SettingsSource
from workers.summariser.extractive.local import LocalSummariser

pytestmark = pytest.mark.both_databases

MINUTE = 60_000
MANY = 10_000

NUMBERS = (
    "WITH RECURSIVE numbers (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < {})"
)


@pytest.fixture
def context(database: Database) -> WorkerContext:
    return context_on(database)


@pytest.fixture
def crowded(database_url: str) -> Iterator[WorkerContext]:
    """Yield a worker context on a database of its own: to empty a large one takes longer."""
    with migrated(database_url) as database:
        yield context_on(database)


def context_on(database: Database) -> WorkerContext:
    settings = Settings(database_url=url_of(database))
    return WorkerContext(database, SettingsSource.fixed(settings), LocalSummariser())


def enqueue(
    database: Database, owner: str, count: int, *, notified: bool = True, kind: str = "micro"
) -> list[int]:
    """Create `count` sessions of an owner, each with a due job; return the jobs' ids."""
    with database.write() as connection:
        connection.execute(
            sql(
                "INSERT INTO sessions (owner, id, source, started_at, active_at)"
                f" {NUMBERS.format(count)} SELECT :owner, 's' || n, 'cli', 1, 1 FROM numbers"
            ),
            {"owner": owner},
        )
        return list(
            connection.execute(
                sql(
                    "INSERT INTO jobs (session_key, owner, kind, queue, trigger, run_at,"
                    " notified_at, created_at, updated_at)"
                    " SELECT \"key\", owner, :kind, 'turns', 'turn',"
                    f' "key", {2 if notified else "NULL"}, 1, 1 FROM sessions WHERE owner = :owner'
                    ' ORDER BY "key" RETURNING id'
                ),
                {"owner": owner, "kind": kind},
            ).scalars()
        )


def owner_of(database: Database, job_id: int) -> str:
    with database.read() as connection:
        query = sql("SELECT owner FROM jobs WHERE id = :id")
        return str(connection.execute(query, {"id": job_id}).scalar_one())


def only_session(database: Database) -> StoredSession:
    with database.read() as connection:
        key = connection.execute(sql('SELECT "key" FROM sessions')).scalar_one()
    return StoredSession(database, key)


def worked(context: WorkerContext, notify: int) -> Worked:
    match work_next(context, notify):
        case Worked() as done:
            return done
        case Crashed(error):
            raise error
        case NotClaimed():
            raise AssertionError("a notification of a due job found nothing")


def test_five_sessions_are_done_within_a_few_claims_though_ten_thousand_came_before(
    crowded: WorkerContext,
) -> None:
    notifications = enqueue(crowded.database, "a", MANY)
    few = enqueue(crowded.database, "b", 5)
    done = [worked(crowded, notify) for notify in notifications[:12]]
    assert {one.job_id for one in done} >= set(few)


def test_what_a_claim_costs_does_not_grow_with_what_is_due(crowded: WorkerContext) -> None:
    enqueue(crowded.database, "a", 10)
    notifications = enqueue(crowded.database, "b", 10)
    worked(crowded, notifications[0])
    with counted(crowded.database) as before:
        worked(crowded, notifications[1])
    enqueue(crowded.database, "c", MANY)
    enqueue(crowded.database, "d", 10)
    worked(crowded, notifications[2])
    with counted(crowded.database) as after:
        worked(crowded, notifications[3])
    assert after.statements == before.statements
    assert after.rows_written == before.rows_written


def test_every_owner_gets_a_turn_before_one_gets_another(context: WorkerContext) -> None:
    of = {owner: enqueue(context.database, owner, 10) for owner in ("a", "ä", "b", "z", "北")}
    order = [owner_of(context.database, worked(context, notify).job_id) for notify in of["z"]]
    assert [set(order[n : n + 5]) for n in (0, 5)] == [set(of)] * 2


def test_the_notified_job_is_notified_again_where_another_was_worked(
    context: WorkerContext,
) -> None:
    mine, other = enqueue(context.database, "a", 1), enqueue(context.database, "b", 1)
    first = worked(context, other[0])
    assert first.job_id == mine[0]
    assert first.session == "s0"
    assert [due.id for due in first.due] == other
    second = worked(context, other[0])
    assert (second.job_id, second.due) == (other[0], ())
    # The notification of what was worked in between finds nothing.
    assert work_next(context, mine[0]) == NotClaimed()


def test_the_notified_job_itself_is_worked_where_its_owner_has_the_turn(
    context: WorkerContext,
) -> None:
    notifications = enqueue(context.database, "a", 3)
    assert [worked(context, notify).job_id for notify in (notifications[2], notifications[0])] == [
        notifications[2],
        notifications[0],
    ]


def test_an_owners_job_of_higher_priority_goes_before_the_notified_one(
    database: Database, context: WorkerContext
) -> None:
    notifications = enqueue(database, "a", 3)
    with database.write() as connection:
        connection.execute(sql(f"UPDATE jobs SET priority = 70 WHERE id = {notifications[2]}"))
    done = worked(context, notifications[0])
    assert done.job_id == notifications[2]
    assert [due.id for due in done.due] == [notifications[0]]


def test_of_another_owner_the_strongest_goes_first_and_then_what_waits_longest(
    database: Database, context: WorkerContext
) -> None:
    mine, theirs = enqueue(database, "b", 3), enqueue(database, "a", 3)
    with database.write() as connection:
        connection.execute(sql(f"UPDATE jobs SET priority = 5 WHERE id = {theirs[2]}"))
    assert worked(context, mine[0]).job_id == theirs[2]
    assert worked(context, mine[0]).job_id == mine[0]
    assert worked(context, mine[1]).job_id == theirs[0]


def test_a_job_whose_session_is_being_worked_on_takes_nobodys_turn(
    database: Database, context: WorkerContext
) -> None:
    busy = enqueue(database, "a", 1)
    Worker(database).take(only_session(database).enqueue(JobKind.BATCH))
    mine = enqueue(database, "b", 2)
    assert [worked(context, notify).job_id for notify in mine] == mine
    assert work_next(context, busy[0]) == NotClaimed()


def test_jobs_not_notified_yet_wait_for_their_notification(
    database: Database, context: WorkerContext
) -> None:
    enqueue(database, "a", 3, notified=False)
    mine = enqueue(database, "b", 1)
    assert worked(context, mine[0]).job_id == mine[0]


def test_a_job_of_an_older_version_is_worked_when_it_is_notified(
    database: Database, context: WorkerContext
) -> None:
    mine, others = enqueue(database, "b", 1), enqueue(database, "a", 3)
    with database.write() as connection:
        connection.execute(sql(f"UPDATE jobs SET owner = NULL WHERE id = {mine[0]}"))
    assert worked(context, mine[0]).job_id == mine[0]
    assert worked(context, others[0]).job_id == others[0]


def test_queues_have_turns_of_their_own(database: Database, context: WorkerContext) -> None:
    notifications = {owner: enqueue(database, owner, 2) for owner in ("a", "b")}
    with database.write() as connection:
        for of in notifications.values():
            connection.execute(sql(f"UPDATE jobs SET queue = 'batch' WHERE id = {of[1]}"))
    assert worked(context, notifications["a"][0]).job_id == notifications["a"][0]
    assert worked(context, notifications["b"][1]).job_id == notifications["a"][1]


def test_a_job_is_its_sessions_owners(database: Database) -> None:
    session = StoredSession.create(database, owner="北京")
    due = session.enqueue(notified=True)
    with database.read() as connection:
        first = jobs.next_in_rotation(connection, due.queue, after=None)
    assert first is not None
    assert (first.job, first.owner) == (due, "北京")


def test_a_job_that_waits_for_its_time_takes_nobodys_turn(database: Database) -> None:
    worker, session = Worker(database), StoredSession.create(database)
    due = session.enqueue(notified=True)
    worker.release(worker.take(due), delay_ms=MINUTE)
    with database.read() as connection:
        assert jobs.next_in_rotation(connection, due.queue, after=None) is None
        assert jobs.notified(connection, database, due.id) is None
    assert [job.id for job in worker.after(MINUTE).notify()] == [due.id]
    with database.read() as connection:
        first = jobs.next_in_rotation(connection, due.queue, after=None)
    assert first is not None
    assert first.owner == "o"


def test_a_notification_counts_until_the_job_is_notified_in_another_queue(
    database: Database,
) -> None:
    worker, session = Worker(database), StoredSession.create(database)
    session.enqueue(notified=True)
    session.enqueue()
    assert worker.notify() == []
    moved: DueJob = session.enqueue(priority=5, queue="another")
    assert worker.notify() == [moved]


def test_a_silent_workers_job_does_not_keep_its_owner_from_his_turn_for_ever(
    database: Database, context: WorkerContext
) -> None:
    enqueue(database, "a", 1)
    Worker(database).take(only_session(database).enqueue(JobKind.BATCH))
    later = Worker(database).after(LEASE_MS + 1)
    assert later.rescue() == 1
    with database.read() as connection:
        first = jobs.next_in_rotation(connection, "turns", after=None)
    assert first is not None
    assert first.owner == "a"
