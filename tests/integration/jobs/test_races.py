"""Many workers at once: every job is worked once, and never two of a session together."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from threading import Lock

import pytest

from storage import jobs
from storage.engine import Database
from storage.jobs import Claim, JobKind, JobState, job_records
from tests.support.observing.at_once import at_once, succeeded
from tests.support.sessions.stored_jobs import LEASE_MS, Worker
from tests.support.sessions.stored_session import StoredSession

pytestmark = pytest.mark.both_databases

THREADS = 16
SESSIONS = 5
JOBS_PER_SESSION = 10


@dataclass
class Witness:
    """Sees every piece of work begin and end, and whether two of a session overlap."""

    worked: list[tuple[int, int]] = field(default_factory=list)
    together: list[int] = field(default_factory=list)
    _busy: set[int] = field(default_factory=set)
    _lock: Lock = field(default_factory=Lock)

    @contextmanager
    def sees(self, claim: Claim) -> Iterator[None]:
        with self._lock:
            if claim.session_key in self._busy:
                self.together.append(claim.session_key)
            self._busy.add(claim.session_key)
            self.worked.append((claim.job_id, claim.fence))
        yield
        with self._lock:
            self._busy.discard(claim.session_key)


def test_sixteen_workers_work_fifty_jobs_of_five_sessions_once_each(database: Database) -> None:
    sessions = [StoredSession.create(database, f"{n}") for n in range(SESSIONS)]
    for session in sessions:
        session.enqueue()
        session.enqueue(JobKind.MICRO)
    left = Counter({session.key: JOBS_PER_SESSION - 2 for session in sessions})
    witness = Witness()

    def finish(worker: Worker, claim: Claim) -> None:
        """Close the job, and make its successor due as long as the session has some left."""
        with database.write() as connection:
            jobs.finish(connection, database, claim)
            if left[claim.session_key]:
                left[claim.session_key] -= 1
                StoredSession(database, claim.session_key).make_due_in(connection, claim.kind)

    def work(number: int) -> None:
        worker, choice = Worker(database, f"w{number}"), random.Random(number)
        while True:
            with database.read() as connection:
                open_jobs = [job.id for job in job_records.open_jobs(connection)]
            if not open_jobs:
                return
            claim = worker.claim(choice.choice(open_jobs))
            if claim is not None:
                with witness.sees(claim):
                    worker.renew(claim)
                finish(worker, claim)

    succeeded(at_once([partial(work, number) for number in range(THREADS)]))

    assert witness.together == []
    assert len(set(witness.worked)) == len(witness.worked) == SESSIONS * JOBS_PER_SESSION
    done = [job for session in sessions for job in Worker(database).jobs_of(session.key)]
    assert {(job.id, job.fence) for job in done} == set(witness.worked)
    assert {job.state for job in done} == {JobState.DONE}


def test_of_many_workers_one_takes_over_from_a_silent_one(database: Database) -> None:
    due = StoredSession.create(database).enqueue()
    worker = Worker(database)
    silent = worker.take(due)
    late = worker.after(LEASE_MS + 1)

    def take_over(number: int) -> Claim | None:
        if number % 4 == 0:
            late.rescue()
        return late.claim(due.id)

    calls = [partial(take_over, number) for number in range(8)]
    claims = [claim for claim in succeeded(at_once(calls)) if claim is not None]
    assert [(claim.attempt, claim.fence) for claim in claims] == [(2, 2)]
    assert not late.renew(silent)


def test_no_wake_up_is_lost_between_a_worker_that_finishes_and_one_that_brings_work(
    database: Database,
) -> None:
    session, worker = StoredSession.create(database), Worker(database)
    due = session.enqueue()
    for _ in range(15):
        claim = worker.take(due)
        calls: list[Callable[[], object]] = [session.enqueue, partial(worker.finish, claim)]
        succeeded(at_once(calls))
        (due,) = worker.due_in(session.key)
