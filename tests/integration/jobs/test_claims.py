"""Claiming a job, and what its lease owner may write as long as no other has the lease."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import text

from storage import jobs
from storage.conversations import sessions
from storage.engine import Database
from storage.errors import FenceLost
from storage.jobs import Claim, Ended, JobKind, JobState, queue_states
from tests.support.observing.waiting import wait_until
from tests.support.sessions.chat import assistant
from tests.support.sessions.stored_jobs import DEADLINE_MS, LEASE_MS, WRITES, Worker
from tests.support.sessions.stored_session import StoredSession, dump, on_postgresql

pytestmark = pytest.mark.both_databases

MINUTE = 60_000
AFTER_LEASE = LEASE_MS + 1


@pytest.fixture
def worker(database: Database) -> Worker:
    return Worker(database)


@pytest.fixture
def session(database: Database) -> StoredSession:
    return StoredSession.create(database)


def test_a_claim_says_what_to_do_and_holds_the_job(worker: Worker, session: StoredSession) -> None:
    due = session.enqueue(JobKind.MICRO, queue="micro", trigger="turn", priority=2)
    claim = worker.take(due)
    assert (claim.job_id, claim.session_key, claim.kind) == (due.id, session.key, JobKind.MICRO)
    assert (claim.queue, claim.trigger, claim.priority) == ("micro", "turn", 2)
    assert (claim.attempt, claim.fence, claim.lease_owner) == (1, 1, "w")
    job = worker.job(due.id)
    assert (job.state, job.attempt, job.fence) == (JobState.RUNNING, 1, 1)
    assert job.lease_owner == "w"
    assert job.lease_until is not None
    assert 0 <= job.lease_until - job.run_at - LEASE_MS < 10_000


def test_a_job_is_claimed_once(worker: Worker, session: StoredSession) -> None:
    due = session.enqueue()
    worker.take(due)
    before = dump(worker.database)
    assert worker.claim(due.id) is None
    assert dump(worker.database) == before


def test_what_does_not_exist_or_is_closed_is_not_claimed(
    worker: Worker, session: StoredSession
) -> None:
    done = worker.take(session.enqueue())
    worker.finish(done)
    dead = worker.take(session.enqueue())
    worker.dead_letter(dead)
    assert [worker.claim(job_id) for job_id in (done.job_id, dead.job_id, 404)] == [None] * 3


def test_a_job_is_not_claimed_before_its_time(worker: Worker, session: StoredSession) -> None:
    due = session.enqueue(delay_ms=MINUTE)
    assert worker.claim(due.id) is None
    assert worker.after(MINUTE - 10_000).claim(due.id) is None
    assert worker.after(MINUTE).claim(due.id) is not None


def test_of_a_session_one_job_runs_at_a_time(worker: Worker, session: StoredSession) -> None:
    turn, micro = session.enqueue(), session.enqueue(JobKind.MICRO)
    claim = worker.take(turn)
    assert worker.claim(micro.id) is None
    worker.finish(claim)
    assert worker.claim(micro.id) is not None


def test_jobs_of_different_sessions_run_side_by_side(database: Database, worker: Worker) -> None:
    for name in ("one", "two", "three"):
        worker.take(StoredSession.create(database, name).enqueue())


@on_postgresql
def test_a_claim_that_the_database_refuses_is_no_error(database: Database) -> None:
    """Somebody who does not take the session's row first is stopped by the index."""
    worker, session = Worker(database), StoredSession.create(database)
    turn, micro = session.enqueue(), session.enqueue(JobKind.MICRO)
    with database.engine.connect() as rude, ThreadPoolExecutor(1) as pool:
        rude.execute(text(f"UPDATE jobs SET state = 'running' WHERE id = {turn.id}"))
        claimed = pool.submit(worker.claim, micro.id)
        wait_until(lambda: waits_for_a_lock(database, "UPDATE jobs"), "the claim waits")
        rude.commit()
        assert claimed.result(10) is None
    assert worker.job(micro.id).state is JobState.DUE


@on_postgresql
def test_a_claim_that_waited_takes_nothing_from_a_queue_that_was_paused_meanwhile(
    database: Database,
) -> None:
    worker, session = Worker(database), StoredSession.create(database)
    due = session.enqueue()
    with database.engine.connect() as busy, ThreadPoolExecutor(1) as pool:
        sessions.lock(busy, session.key)
        claimed = pool.submit(worker.claim, due.id)
        wait_until(lambda: waits_for_a_lock(database, "SELECT sessions.key"), "the claim waits")
        with database.write() as connection:
            queue_states.pause(connection, database, [due.queue])
        busy.commit()
        assert claimed.result(10) is None
    assert worker.job(due.id).state is JobState.DUE


def waits_for_a_lock(database: Database, beginning: str) -> bool:
    """Return whether a statement that begins so waits for somebody else's transaction."""
    query = text(
        "SELECT 1 FROM pg_stat_activity WHERE datname = current_database()"
        " AND wait_event_type = 'Lock' AND query LIKE :beginning"
    )
    with database.read() as connection:
        return connection.execute(query, {"beginning": f"{beginning}%"}).first() is not None


def test_a_job_released_is_due_again_with_its_fence(worker: Worker, session: StoredSession) -> None:
    claim = worker.take(session.enqueue())
    worker.release(claim, delay_ms=MINUTE, reason="timeout")
    job = worker.job(claim.job_id)
    assert (job.state, job.attempt, job.fence) == (JobState.DUE, 1, 1)
    assert (job.lease_owner, job.lease_until, job.reason) == (None, None, "timeout")
    assert worker.claim(claim.job_id) is None
    again = worker.after(MINUTE).claim(claim.job_id)
    assert again is not None
    assert (again.attempt, again.fence) == (2, 2)


def test_only_claims_in_a_row_that_ended_without_a_word_count(
    worker: Worker, session: StoredSession
) -> None:
    due = session.enqueue()
    for hours in range(6):
        later = worker.after(hours * 60 * MINUTE)
        if hours % 2:
            # The model failed: that was foreseen, and is counted elsewhere.
            claim = later.take(due)
            later.release(claim, delay_ms=0, ended=Ended.FORESEEN)
        else:
            later.take(due)
            assert worker.after(hours * 60 * MINUTE + LEASE_MS + 1).rescue() == 1
        assert worker.job(due.id).state is JobState.DUE
    assert worker.job(due.id).attempt == 0


def test_an_attempt_can_be_given_back_and_the_fence_never(
    worker: Worker, session: StoredSession
) -> None:
    due = session.enqueue()
    for fence in range(1, 6):
        claim = worker.take(due)
        assert (claim.attempt, claim.fence) == (1, fence)
        worker.release(claim, reason=None, ended=Ended.HANDED_BACK)
        assert worker.job(due.id).attempt == 0


def test_a_committed_pass_begins_attempts_lease_and_deadline_anew(
    worker: Worker, session: StoredSession
) -> None:
    due = session.enqueue()
    for _ in range(2):
        worker.release(worker.take(due))
    claim = worker.take(due)
    assert claim.attempt == 3
    before = worker.job(due.id)
    worker.after(DEADLINE_MS - 1000).proceed(claim)
    job = worker.job(due.id)
    assert (job.state, job.attempt, job.fence) == (JobState.RUNNING, 1, 3)
    assert before.lease_until is not None
    assert job.lease_until is not None
    assert job.lease_until - before.lease_until >= DEADLINE_MS - 1000
    # Without a new deadline this lease would be cut.
    assert worker.after(DEADLINE_MS).renew(claim, lease_ms=5 * LEASE_MS)
    renewed = worker.job(due.id).lease_until
    assert renewed is not None
    assert renewed - job.run_at > DEADLINE_MS + 4 * LEASE_MS


def test_a_dead_job_keeps_why_and_when(worker: Worker, session: StoredSession) -> None:
    due = session.enqueue()
    worker.dead_letter(worker.take(due))
    (row,) = dump(worker.database)["jobs"]
    assert (row["state"], row["reason"], row["trace"]) == ("dead", "KeyError", "frames")
    first, last = row["failed_first_at"], row["failed_last_at"]
    # PostgreSQL reads its clock anew for each.
    assert 0 <= last - first <= 5
    assert first >= row["created_at"]
    assert (row["lease_owner"], row["lease_until"], row["deadline_at"]) == (None, None, None)


def test_a_dead_job_knows_when_it_failed_first(worker: Worker, session: StoredSession) -> None:
    due = session.enqueue()
    worker.take(due)
    claim = worker.after(AFTER_LEASE).take(due)
    worker.after(2 * AFTER_LEASE).dead_letter(claim)
    (row,) = dump(worker.database)["jobs"]
    assert row["failed_last_at"] - row["failed_first_at"] >= AFTER_LEASE


# How a lease owner may lose its job. Each takes the worker that has it and its claim.


def taken_over(worker: Worker, claim: Claim) -> None:
    assert worker.after(AFTER_LEASE).claim(claim.job_id) is not None


def rescued(worker: Worker, claim: Claim) -> None:
    assert worker.after(AFTER_LEASE).rescue() == 1


def given_up_for_dead(worker: Worker, claim: Claim) -> None:
    with worker.database.write() as connection:
        connection.execute(text("UPDATE jobs SET attempt = 3"))
    rescued(worker, claim)


def released(worker: Worker, claim: Claim) -> None:
    worker.release(claim)


def released_and_claimed_anew(worker: Worker, claim: Claim) -> None:
    worker.release(claim, ended=Ended.HANDED_BACK)
    assert worker.claim(claim.job_id) is not None


def finished(worker: Worker, claim: Claim) -> None:
    worker.finish(claim)


def finished_and_claimed_anew(worker: Worker, claim: Claim) -> None:
    StoredSession(worker.database, claim.session_key).enqueue()
    assert worker.finish(claim)
    assert worker.claim(claim.job_id) is not None


def finished_and_followed_by_a_new_job(worker: Worker, claim: Claim) -> None:
    assert not worker.finish(claim)
    new = worker.take(StoredSession(worker.database, claim.session_key).enqueue())
    assert new.fence == claim.fence
    assert new.job_id > claim.job_id


def dead_lettered(worker: Worker, claim: Claim) -> None:
    worker.dead_letter(claim)


LOSSES = (
    taken_over,
    rescued,
    given_up_for_dead,
    released,
    released_and_claimed_anew,
    finished,
    finished_and_claimed_anew,
    finished_and_followed_by_a_new_job,
    dead_lettered,
)


@pytest.mark.parametrize("lose", LOSSES, ids=lambda lose: str(lose.__name__))
def test_a_worker_that_has_lost_its_job_writes_nothing_any_more(
    worker: Worker, session: StoredSession, lose: Callable[[Worker, Claim], None]
) -> None:
    claim = worker.take(session.enqueue())
    lose(worker, claim)
    before = dump(worker.database)
    for name, write in WRITES.items():
        with pytest.raises(FenceLost) as caught:
            write(worker, claim)
        assert (caught.value.job_id, caught.value.fence) == (claim.job_id, claim.fence), name
    assert not worker.renew(claim)
    assert dump(worker.database) == before


def test_the_fence_grows_whatever_becomes_of_the_job(
    worker: Worker, session: StoredSession
) -> None:
    """Pairs of job and fence only ever grow, so that an old one never counts again."""
    seen: list[tuple[int, int]] = []

    def take() -> Claim:
        claim = worker.take(session.enqueue())
        seen.append((claim.job_id, claim.fence))
        return claim

    for ended in Ended:
        worker.release(take(), ended=ended)
    claim = take()
    session.enqueue()
    worker.finish(claim)
    worker.finish(take())
    worker.dead_letter(take())
    worker.finish(take())
    assert seen == sorted(set(seen))
    assert len(seen) == len(Ended) + 4


def test_what_a_lease_owner_wrote_in_the_same_transaction_goes_with_its_fence(
    worker: Worker, session: StoredSession
) -> None:
    claim = worker.take(session.enqueue())
    taken_over(worker, claim)
    before = dump(worker.database)

    def commit_late() -> None:
        with worker.database.write() as connection:
            session.append_in(connection, [assistant("late")])
            jobs.check_fence(connection, claim)

    with pytest.raises(FenceLost):
        commit_late()
    assert dump(worker.database) == before
