"""Leases end by the database's clock, and what happens to a job whose lease owner went silent."""

from __future__ import annotations

import pytest

from storage.engine import Database
from storage.jobs import MAX_CRASHES, Claim, Ended, JobKind, JobState
from tests.support.sessions.stored_jobs import DEADLINE_MS, LEASE_MS, Worker
from tests.support.sessions.stored_session import StoredSession, dump

pytestmark = pytest.mark.both_databases

AFTER_LEASE = LEASE_MS + 1
BEFORE_ITS_END = LEASE_MS - 10_000


@pytest.fixture
def worker(database: Database) -> Worker:
    return Worker(database)


@pytest.fixture
def session(database: Database) -> StoredSession:
    return StoredSession.create(database)


def lease_end(worker: Worker, claim: Claim) -> int:
    until = worker.job(claim.job_id).lease_until
    assert until is not None
    return until


def deadline(worker: Worker) -> int:
    (row,) = dump(worker.database)["jobs"]
    end: int = row["deadline_at"]
    return end


def crash(worker: Worker, job_id: int) -> Worker:
    """Claim a job and go silent; return the worker of the time when the lease has ended."""
    assert worker.claim(job_id) is not None
    return worker.after(AFTER_LEASE)


def test_a_lease_holds_until_its_end(worker: Worker, session: StoredSession) -> None:
    due = session.enqueue()
    worker.take(due)
    assert worker.after(BEFORE_ITS_END).claim(due.id) is None
    assert worker.after(BEFORE_ITS_END).rescue() == 0
    taken = worker.after(AFTER_LEASE).claim(due.id)
    assert taken is not None
    assert (taken.attempt, taken.fence) == (2, 2)


def test_a_renewed_lease_ends_later(worker: Worker, session: StoredSession) -> None:
    claim = worker.take(session.enqueue())
    first = lease_end(worker, claim)
    assert worker.after(BEFORE_ITS_END).renew(claim)
    assert lease_end(worker, claim) - first == pytest.approx(BEFORE_ITS_END, abs=5000)
    assert worker.after(AFTER_LEASE).claim(claim.job_id) is None
    assert worker.after(AFTER_LEASE + LEASE_MS).claim(claim.job_id) is not None


def test_renewing_changes_nothing_but_the_lease(worker: Worker, session: StoredSession) -> None:
    claim = worker.take(session.enqueue())
    session.enqueue()
    (before,) = dump(worker.database)["jobs"]
    assert worker.after(1000).renew(claim)
    (now,) = dump(worker.database)["jobs"]
    changed = {name for name, value in now.items() if before[name] != value}
    assert changed == {"lease_until", "updated_at"}


def test_a_lease_is_never_renewed_past_the_deadline(worker: Worker, session: StoredSession) -> None:
    claim = worker.take(session.enqueue(), deadline_ms=2 * LEASE_MS)
    end = deadline(worker)
    assert worker.after(BEFORE_ITS_END).renew(claim)
    assert lease_end(worker, claim) < end
    assert worker.after(2 * BEFORE_ITS_END).renew(claim)
    assert lease_end(worker, claim) == end
    late = worker.after(2 * LEASE_MS + 1)
    assert not late.renew(claim)
    assert late.claim(claim.job_id) is not None


def test_a_claims_first_lease_does_not_outlast_its_deadline(
    worker: Worker, session: StoredSession
) -> None:
    due = session.enqueue()
    claim = worker.take(due, lease_ms=DEADLINE_MS, deadline_ms=LEASE_MS)
    assert lease_end(worker, claim) == pytest.approx(deadline(worker), abs=100)
    assert worker.after(AFTER_LEASE + 100).claim(due.id) is not None


def test_an_ended_lease_is_not_renewed_though_nobody_took_the_job(
    worker: Worker, session: StoredSession
) -> None:
    claim = worker.take(session.enqueue())
    before = dump(worker.database)
    assert not worker.after(AFTER_LEASE).renew(claim)
    assert dump(worker.database) == before


def test_a_claim_in_the_session_finds_what_went_silent_there(
    worker: Worker, session: StoredSession
) -> None:
    silent = worker.take(session.enqueue())
    micro = session.enqueue(JobKind.MICRO)
    assert worker.after(AFTER_LEASE).claim(micro.id) is not None
    rescued = worker.job(silent.job_id)
    assert (rescued.state, rescued.attempt, rescued.fence) == (JobState.DUE, 1, 1)
    assert (rescued.lease_owner, rescued.reason) == (None, "the worker went silent")


def test_a_job_that_kills_its_workers_is_dead_after_three(
    worker: Worker, session: StoredSession
) -> None:
    due = session.enqueue()
    for _ in range(MAX_CRASHES - 1):
        worker = crash(worker, due.id)
    assert worker.claim(due.id) is not None
    worker = worker.after(AFTER_LEASE)
    assert worker.claim(due.id) is None
    (job,) = worker.jobs_of(session.key)
    assert (job.state, job.attempt, job.fence) == (JobState.DEAD, MAX_CRASHES, MAX_CRASHES)
    assert (job.lease_owner, job.lease_until) == (None, None)
    assert job.reason == "the worker went silent"


def test_a_dead_job_does_not_stand_in_the_way_of_its_session(
    worker: Worker, session: StoredSession
) -> None:
    due = session.enqueue()
    for _ in range(MAX_CRASHES):
        worker = crash(worker, due.id)
    micro = session.enqueue(JobKind.MICRO)
    claim = worker.claim(micro.id)
    assert claim is not None
    worker.finish(claim)
    assert worker.claim(session.enqueue().id) is not None


def test_a_pass_that_was_committed_lets_crashes_be_counted_anew(
    worker: Worker, session: StoredSession
) -> None:
    due = session.enqueue()
    for _ in range(MAX_CRASHES - 1):
        worker = crash(worker, due.id)
    claim = worker.take(due)
    worker.proceed(claim)
    for _ in range(MAX_CRASHES - 1):
        worker = worker.after(AFTER_LEASE)
        assert worker.claim(due.id) is not None


def test_an_attempt_that_is_given_back_is_no_crash(worker: Worker, session: StoredSession) -> None:
    due = session.enqueue()
    for _ in range(2 * MAX_CRASHES):
        worker.release(worker.take(due), ended=Ended.HANDED_BACK)
    assert worker.claim(due.id) is not None


def test_rescue_puts_every_ended_job_back_and_no_other(database: Database, worker: Worker) -> None:
    for number in range(5):
        due = StoredSession.create(database, f"{number}").enqueue()
        worker.take(due, lease_ms=LEASE_MS if number < 3 else 2 * LEASE_MS)
    assert worker.rescue() == 0
    assert worker.after(AFTER_LEASE).rescue() == 3
    assert worker.after(AFTER_LEASE).rescue() == 0
    states = [job["state"] for job in dump(database)["jobs"]]
    assert states == ["due"] * 3 + ["running"] * 2


def test_rescue_buries_what_crashed_too_often_and_keeps_what_arrived_meanwhile(
    database: Database, worker: Worker
) -> None:
    quiet, busy = (StoredSession.create(database, name) for name in ("quiet", "busy"))
    for session in (quiet, busy):
        due = session.enqueue(queue="q", trigger="t", options={"a": 1})
        for crashes in range(MAX_CRASHES):
            worker.after(crashes * AFTER_LEASE).take(due)
    busy.enqueue()
    assert worker.after(MAX_CRASHES * AFTER_LEASE).rescue() == 2
    assert [job.state for job in worker.jobs_of(quiet.key)] == [JobState.DEAD]
    dead, new = worker.jobs_of(busy.key)
    assert (dead.state, new.state) == (JobState.DEAD, JobState.DUE)
    assert (new.queue, new.trigger, new.attempt, new.fence) == ("q", "t", 0, 0)
    assert worker.after(MAX_CRASHES * AFTER_LEASE).claim(new.id) is not None


def test_a_recovered_job_can_be_notified_and_claimed_at_once(
    worker: Worker, session: StoredSession
) -> None:
    due = session.enqueue(notified=True)
    worker.take(due)
    later = worker.after(AFTER_LEASE)
    assert later.any_due()
    assert later.rescue() == 1
    assert [job.id for job in later.notify()] == [due.id]
    assert later.claim(due.id) is not None
