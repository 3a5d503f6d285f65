"""A person takes back a pass that nobody works yet."""

from __future__ import annotations

import pytest

from storage.engine import Database
from storage.jobs import JobKind, JobState, job_records
from storage.jobs.job_records import JobRecord
from tests.support.model.behaviours import Status
from tests.support.model.server import ModelServer
from tests.support.sessions.stored_jobs import Worker
from tests.support.workers.workplace import Workplace, desk
from workers.batch.placeholders import withdraw
from workers.policy.triggers import Trigger


@pytest.fixture
def place(database: Database) -> Workplace:
    return Workplace(desk(database), "http://127.0.0.1:1/v1")


def all_jobs(place: Workplace) -> list[JobRecord]:
    with place.database.read() as connection:
        return job_records.all_jobs(connection, place.session.key)


def test_a_manual_job_that_waits_is_closed_unworked(place: Workplace) -> None:
    job = place.ask(Trigger.MANUAL, delay_ms=60_000)
    assert withdraw(place.database, place.session.key, job.id)
    assert place.job() is None
    [closed] = all_jobs(place)
    assert (closed.id, closed.state, closed.attempt) == (job.id, JobState.DONE, 0)
    assert place.tries() == []
    assert not withdraw(place.database, place.session.key, job.id)


def test_a_job_that_somebody_works_is_left_to_them(place: Workplace) -> None:
    job = place.ask(Trigger.MANUAL)
    claim = Worker(place.database).take(job)
    assert not withdraw(place.database, place.session.key, job.id)
    Worker(place.database).check(claim)


def test_a_job_that_is_open_for_something_else_stays(place: Workplace) -> None:
    job = place.ask(Trigger.CONTEXT_OVERFLOW)
    assert not withdraw(place.database, place.session.key, job.id)
    assert place.job() is not None


def test_a_placeholder_keeps_its_turn_to_be_replaced(database: Database) -> None:
    with ModelServer() as server, Workplace(desk(database), server.base_url) as place:
        server.always(Status(401))
        place.ask(Trigger.MANUAL)
        place.work()
        replacement = place.job()
        assert replacement is not None
        assert replacement.trigger == Trigger.REPLACE_PLACEHOLDER
        job = place.ask(Trigger.MANUAL)
        assert job.id == replacement.id
        assert withdraw(database, place.session.key, job.id)
        waiting = place.job()
        assert waiting is not None
        assert (waiting.kind, waiting.trigger) == (JobKind.BATCH, Trigger.REPLACE_PLACEHOLDER)
        assert waiting.run_at > place.time()
