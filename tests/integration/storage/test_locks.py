"""Every writer of a session locks its row first, so there is no deadlock and no long wait."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from functools import partial

import pytest
from sqlalchemy import Connection, text

from storage import answers, jobs
from storage.answers import StoredAnswer
from storage.conversations import sessions
from storage.conversations.rows import Kind
from storage.engine import Database
from storage.errors import DatabaseUnavailable, FenceLost
from storage.jobs import Claim, JobKind, job_records
from tests.support.observing.at_once import at_once, succeeded
from tests.support.sessions.chat import assistant, user
from tests.support.sessions.stored_jobs import LEASE_MS, Worker
from tests.support.sessions.stored_session import StoredSession, dump, on_postgresql

pytestmark = pytest.mark.both_databases

SESSIONS = 3
TURNS = 8
ANSWER = StoredAnswer("text", "model", None, None, 0)


def impatient(connection: Connection) -> None:
    """Let every wait for a lock in this transaction be an error."""
    connection.execute(text("SET LOCAL lock_timeout = '1ms'"))


@on_postgresql
def test_a_session_is_locked_against_others_that_lock_it(database: Database) -> None:
    session, other = (StoredSession.create(database, name) for name in ("one", "other"))

    def lock(key: int) -> None:
        with database.write() as connection:
            impatient(connection)
            sessions.lock(connection, key)

    with database.write() as connection:
        sessions.lock(connection, session.key)
        lock(other.key)
        with pytest.raises(DatabaseUnavailable, match="lock timeout"):
            lock(session.key)
    lock(session.key)


@on_postgresql
def test_a_claim_takes_the_sessions_row_first(database: Database) -> None:
    session = StoredSession.create(database)
    due = session.enqueue()

    def claim() -> Claim | None:
        with database.write() as connection:
            impatient(connection)
            return jobs.claim(
                connection,
                database,
                due.id,
                lease_owner="w",
                lease_ms=LEASE_MS,
                deadline_ms=LEASE_MS,
            )

    with database.write() as connection:
        sessions.lock(connection, session.key)
        with pytest.raises(DatabaseUnavailable, match="lock timeout"):
            claim()
    assert claim() is not None


@on_postgresql
def test_what_is_kept_for_a_session_waits_for_no_commit_of_it(database: Database) -> None:
    """Answers, leases and readers need not the row that a commit holds."""
    session, worker = StoredSession.create(database), Worker(database)
    session.append([user("here")])
    claim = worker.take(session.enqueue())
    with database.write() as committing:
        sessions.lock(committing, session.key)
        with database.write() as connection:
            impatient(connection)
            answers.keep(connection, database, session.key, "question", ANSWER)
            assert jobs.renew(connection, database, claim, lease_ms=LEASE_MS)
        assert len(session.view()) == 1


def append_turns(session: StoredSession) -> None:
    """Do as a gateway: rows, event and due job in one transaction."""
    for number in range(TURNS):
        with session.database.write() as connection:
            session.append_in(connection, [user(f"{number}"), assistant("x"), assistant("y")])
            session.make_due_in(connection)


def commit(session: StoredSession, claim: Claim) -> None:
    """Do a worker's last transaction: the result of the job, and the job."""
    database = session.database
    with database.write() as connection:
        record = sessions.lock(connection, session.key)
        jobs.check_fence(connection, claim)
        rows = [row for row in session.view() if row.role == "assistant"]
        if claim.kind is JobKind.TURN:
            session.make_due_in(connection, JobKind.MICRO, notified=True)
        elif rows and record.turns:
            session.absorb_in(connection, rows[:4], "a summary")
            answers.drop(connection, session.key, "question")
            jobs.proceed(connection, database, claim, lease_ms=1000, deadline_ms=1000)
        jobs.finish(connection, database, claim)


def work(worker: Worker, seed: int, finished: Callable[[], bool]) -> None:
    """Do as a worker: claim, renew the lease, keep an answer, commit; sometimes go silent."""
    choice, database = random.Random(seed), worker.database
    while not finished():
        with database.read() as connection:
            open_jobs = job_records.open_jobs(connection)
        lease_ms = choice.choice((0, LEASE_MS, LEASE_MS, LEASE_MS))
        claim = worker.claim(choice.choice(open_jobs).id, lease_ms=lease_ms) if open_jobs else None
        if claim is None:
            time.sleep(0.002)
            continue
        worker.renew(claim)
        with database.write() as connection:
            answers.keep(connection, database, claim.session_key, "question", ANSWER)
        try:
            commit(StoredSession(database, claim.session_key), claim)
        except FenceLost:
            continue


def reconcile(worker: Worker, finished: Callable[[], bool]) -> None:
    """Do as the reconciler: recover jobs and notify in one transaction."""
    while not finished():
        with worker.database.write() as connection:
            jobs.rescue_expired(connection, worker.database)
            jobs.notify_due(connection, worker.database, again_after_ms=0, limit=100)
        time.sleep(0.002)


def test_gateways_workers_and_reconcilers_at_once_wait_for_nobody_for_ever(
    database: Database,
) -> None:
    stored = [StoredSession.create(database, f"{n}") for n in range(SESSIONS)]
    worker = Worker(database)

    def finished() -> bool:
        with database.read() as connection:
            appended = all(
                sessions.fetch(connection, session.key).turns == TURNS for session in stored
            )
            return appended and not job_records.open_jobs(connection)

    calls: list[Callable[[], None]] = [
        *(partial(append_turns, session) for session in stored),
        *(partial(work, worker, seed, finished) for seed in range(4)),
        *(partial(reconcile, worker, finished) for _ in range(2)),
    ]
    succeeded(at_once(calls))  # a deadlock would be somebody's DatabaseUnavailable

    markers = 0
    for session in stored:
        assert session.counted() == session.live_rows()
        view = session.view()
        of_session = sum(row.kind is Kind.MICRO for row in view)
        assert of_session <= 1
        markers += of_session
        users = [(row.message or {})["content"] for row in view if row.role == "user"]
        assert users == [f"{number}" for number in range(TURNS)]
    assert markers > 0
    kept = [row for row in dump(database)["messages"] if row["kind"] == "message"]
    assert len(kept) == SESSIONS * TURNS * 3
    assert {job["state"] for job in dump(database)["jobs"]} <= {"done", "dead"}
