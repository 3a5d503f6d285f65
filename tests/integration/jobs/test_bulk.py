"""A few bulk jobs are under way at a time, however many wait."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text as sql

from storage import jobs
from storage.engine import Database
from storage.jobs import DueJob, JobKind, queue_states
from storage.models import BULK_QUEUE
from tasks.names import RECOMPACT
from tests.integration.workers.test_workers import (
    COMPRESSION,
    Host,
    asking,
    end,
    has_answered,
    say_turns,
    wait_until_quiet,
)
from tests.support.model.server import ModelServer
from tests.support.observing.at_once import at_once, succeeded
from tests.support.observing.counting import counted
from tests.support.programs.processes import Processes
from tests.support.sessions.gateways import gateway_on, migrated, rows_of, url_of
from tests.support.sessions.stored_jobs import AGAIN_MS, LEASE_MS, Worker
from tests.support.sessions.stored_session import StoredSession
from workers.runtime.context import WorkerContext
from workers.runtime.jobs import Worked, work_next
from workers.scans.reconcile import reconcile
from workers.settings import Settings, SettingsSource, WorkerSettings
from workers.summariser.extractive.local import LocalSummariser

AT_ONCE = 3


@pytest.fixture
def worker(database: Database) -> Worker:
    return Worker(database)


def bulk(database: Database, count: int, **more: Any) -> list[DueJob]:
    """Create `count` sessions, each with a bulk job that is due."""
    return [
        StoredSession.create(database, f"bulk-{number}").enqueue(
            JobKind.BATCH, **{"queue": BULK_QUEUE, "trigger": "recompact", **more}
        )
        for number in range(count)
    ]


def notify(worker: Worker) -> list[DueJob]:
    with worker.database.write() as connection:
        return jobs.notify_bulk(connection, worker.database, at_once=AT_ONCE)


def is_due(worker: Worker) -> bool:
    with worker.database.read() as connection:
        return jobs.any_bulk(connection, worker.database, at_once=AT_ONCE)


def test_the_queue_of_bulk_work_is_that_of_re_compaction() -> None:
    assert RECOMPACT == BULK_QUEUE


def test_a_few_are_notified_and_each_that_ends_lets_the_next_one_in(worker: Worker) -> None:
    due = bulk(worker.database, 6)
    assert is_due(worker)
    assert notify(worker) == due[:AT_ONCE]
    assert not is_due(worker)
    assert notify(worker) == []
    claims = [worker.take(job) for job in due[:AT_ONCE]]
    # Those that run are under way as well.
    assert notify(worker) == []
    worker.finish(claims[0])
    assert notify(worker) == [due[3]]
    worker.release(claims[1], delay_ms=60_000)
    worker.dead_letter(claims[2])
    assert is_due(worker)
    assert notify(worker) == due[4:]
    assert not is_due(worker)


def test_the_usual_notifications_are_not_for_them_but_for_those_that_were_lost(
    worker: Worker,
) -> None:
    due = bulk(worker.database, 4)
    live = StoredSession.create(worker.database, "live").enqueue()
    assert worker.notify() == [live]
    assert notify(worker) == due[:AT_ONCE]
    late = worker.after(AGAIN_MS)
    assert sorted(job.id for job in late.notify()) == sorted(
        job.id for job in (*due[:AT_ONCE], live)
    )


def test_owners_are_served_round_robin_no_matter_which_has_more_or_came_first(
    worker: Worker,
) -> None:
    database = worker.database
    due = {
        owner: [
            StoredSession.create(database, f"{number}", owner=owner).enqueue(
                JobKind.BATCH, queue=BULK_QUEUE, trigger="recompact"
            )
            for number in range(count)
        ]
        for owner, count in (("many", 10), ("few", 2), ("one", 1))
    }
    served: list[DueJob] = []
    for _ in range(13):
        with database.write() as connection:
            (job,) = jobs.notify_bulk(connection, database, at_once=1)
        served.append(job)
        worker.finish(worker.take(job))
    turns = [due["few"][0], due["many"][0], due["one"][0], due["few"][1]]
    assert served == [*turns, *due["many"][1:]]


def test_a_worker_that_dies_does_not_keep_its_place(worker: Worker) -> None:
    due = bulk(worker.database, 4)
    for job in notify(worker):
        worker.take(job)
    late = worker.after(LEASE_MS + 1)
    assert late.rescue() == AT_ONCE
    assert [job.id for job in notify(late)] == [due[3].id, *[job.id for job in due[:2]]]


def test_a_session_notifies_of_its_bulk_job_when_it_is_its_turn(worker: Worker) -> None:
    first, *_, last = bulk(worker.database, AT_ONCE + 1)
    notify(worker)
    keys = dict(rows_of(worker.database, "SELECT id, session_key FROM jobs"))
    assert worker.due_in(keys[first.id]) == [first]
    assert worker.due_in(keys[last.id]) == []


def test_what_a_person_asks_for_takes_a_bulk_job_over_at_once(worker: Worker) -> None:
    (*_, last) = bulk(worker.database, AT_ONCE + 1)
    notify(worker)
    keys = dict(rows_of(worker.database, "SELECT id, session_key FROM jobs"))
    session = StoredSession(worker.database, keys[last.id])
    asked = session.enqueue(JobKind.BATCH, queue="batch", trigger="manual", priority=70)
    assert asked.id == last.id
    assert worker.notify() == [asked]


def test_a_paused_queue_notifies_of_none(worker: Worker) -> None:
    bulk(worker.database, 2)
    with worker.database.write() as connection:
        queue_states.pause(connection, worker.database, [BULK_QUEUE])
    assert not is_due(worker)
    assert notify(worker) == []
    with worker.database.write() as connection:
        queue_states.resume(connection, [BULK_QUEUE])
    assert len(notify(worker)) == 2


def test_many_reconcilers_together_notify_of_no_more(worker: Worker) -> None:
    due = bulk(worker.database, 20)
    notified = succeeded(at_once([lambda: notify(worker)] * 8))
    assert sorted(job.id for jobs_of_one in notified for job in jobs_of_one) == sorted(
        job.id for job in due[:AT_ONCE]
    )


def test_all_are_worked_in_the_end_and_none_beside_their_places(database: Database) -> None:
    settings = Settings(database_url=url_of(database), worker=WorkerSettings(bulk_at_once=AT_ONCE))
    context = WorkerContext(database, SettingsSource.fixed(settings), LocalSummariser())
    bulk(database, 10)
    notifications, worked = deque(reconcile(context)), 0
    while notifications:
        assert len(notifications) <= AT_ONCE
        # Nothing else notifies meanwhile.
        assert reconcile(context) == []
        done = work_next(context, notifications.popleft().id)
        assert isinstance(done, Worked)
        worked += 1
        notifications.extend(done.due)
    assert worked == 10
    assert rows_of(database, "SELECT DISTINCT state FROM jobs") == [("done",)]
    with counted(database) as work:
        assert reconcile(context) == []
    assert work.rows_written == 0


def test_live_work_finds_a_worker_while_idle_sessions_wait_for_the_model(
    sqlite_url: str, redis_url: str, processes: Processes, tmp_path: Path, model: ModelServer
) -> None:
    host = Host(
        processes,
        tmp_path,
        sqlite_url,
        redis_url,
        auxiliary=asking(model),
        compression={**COMPRESSION, "idle_compact_after_seconds": 1.0},
        schedule={"idle_seconds": 1.0, "reconcile_seconds": 1.0},
        worker={"lease_seconds": 5.0, "bulk_at_once": 2},
    )
    running = "SELECT queue FROM jobs WHERE state = 'running' ORDER BY queue"
    with (
        migrated(sqlite_url) as database,
        gateway_on(sqlite_url, broker_url=redis_url) as gateway,
    ):
        has_answered(database, model)
        for place in range(6):
            session = gateway.open_session(f"idle-{place}", context_window=128_000)
            say_turns(gateway, session, 100 * place, 16)
        forget_what_is_due(database)
        with model.hold():
            # It works four jobs at a time.
            worker, beat = host.start_worker("one"), host.start_beat()
            model.wait_for_requests(2)
            say_turns(gateway, gateway.open_session("live", context_window=128_000), 0, 16)
            model.wait_for_requests(3)
            in_hand = rows_of(database, running)
            assert in_hand == [("micro",), (BULK_QUEUE,), (BULK_QUEUE,)]
            assert jobs_waiting(database) == 4
        wait_until_quiet(database)
        end(beat, worker)


def forget_what_is_due(database: Database) -> None:
    """Let nothing be left to do but what becomes due by being idle."""
    with database.write() as connection:
        connection.execute(sql("DELETE FROM jobs"))
        connection.execute(sql("UPDATE sessions SET decided_turns = turns"))


def jobs_waiting(database: Database) -> int:
    with database.read() as connection:
        return jobs.count_bulk(connection, at_most=100)


def test_while_anything_else_is_to_be_worked_one_bulk_job_is_under_way(
    database: Database, worker: Worker
) -> None:
    settings = Settings(database_url=url_of(database), worker=WorkerSettings(bulk_at_once=AT_ONCE))
    context = WorkerContext(database, SettingsSource.fixed(settings), LocalSummariser())
    bulk(database, 5)
    live = StoredSession.create(database, "live").enqueue()
    assert [job.queue for job in reconcile(context)].count(BULK_QUEUE) == 1
    claim = worker.take(live)
    assert reconcile(context) == []
    worker.finish(claim)
    assert [job.queue for job in reconcile(context)] == [BULK_QUEUE] * (AT_ONCE - 1)
