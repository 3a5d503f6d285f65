"""Records that nobody needs are forgotten in time; conversations never are."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import text as sql

from storage import answers, attempts, scheduling, signals
from storage.answers import StoredAnswer
from storage.attempts import AttemptRecord
from storage.conversations import sessions
from storage.engine import Database
from storage.jobs import JobKind
from storage.signals import SignalKind
from tests.support.observing.counting import counted
from tests.support.sessions.chat import assistant, user
from tests.support.sessions.gateways import contents, rows_of, url_of
from tests.support.sessions.stored_jobs import Worker
from tests.support.sessions.stored_session import StoredSession, later
from workers.runtime.context import WorkerContext
from workers.scans.retention import Deleted, delete_expired
from workers.settings import RetentionSettings, Settings, SettingsSource
from workers.summariser.extractive.local import LocalSummariser

pytestmark = pytest.mark.both_databases

DAY = 86_400_000
ANSWER = StoredAnswer("text", "model", None, None, 0)
ATTEMPT = AttemptRecord(None, "micro", "micro", "absorbed", 1, 1, 1, 1, 0, 0, 0, 0)
NUMBERS = (
    "WITH RECURSIVE numbers (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < {})"
)


def forget_after(database: Database, days: float, **settings: Any) -> Deleted:
    """Return what is forgotten that many days from now."""
    found = Settings(database_url=url_of(database), retention=RetentionSettings(**settings))
    at = later(database, int(days * DAY))
    return delete_expired(WorkerContext(at, SettingsSource.fixed(found), LocalSummariser()))


def left(database: Database, table: str) -> int:
    ((count,),) = rows_of(database, f"SELECT count(*) FROM {table}")
    return int(count)


@pytest.fixture
def session(database: Database) -> StoredSession:
    """Return a session with some of everything."""
    session = StoredSession.create(database)
    session.append([user("question"), assistant("a"), assistant("b")])
    session.absorb([row for row in session.view() if row.role == "assistant"], "summary")
    with database.write() as connection:
        attempts.record(connection, database, session.key, ATTEMPT)
        signals.emit(connection, database, session.key, SignalKind.RESET, {}, quiet=False)
        answers.keep(connection, database, session.key, "q", ANSWER)
        scheduling.take(connection, database, "s", every_ms=1000)
    worker = Worker(database)
    worker.finish(worker.take(session.enqueue()))
    return session


@pytest.mark.parametrize(
    ("days", "forgotten"),
    [
        (0.5, Deleted()),
        (1, Deleted(answers=1, slots=1)),
        (7, Deleted(jobs=1, answers=1, slots=1)),
        (30, Deleted(jobs=1, signals=1, answers=1, slots=1)),
        (90, Deleted(jobs=1, attempts=1, signals=1, answers=1, slots=1)),
    ],
)
def test_each_kind_has_its_time(
    database: Database, session: StoredSession, days: float, forgotten: Deleted
) -> None:
    assert forget_after(database, days) == forgotten
    assert forget_after(database, days) == Deleted()


@pytest.mark.parametrize(
    ("setting", "kind"),
    [("jobs_days", "jobs"), ("attempts_days", "attempts"), ("signals_days", "signals")],
)
def test_the_times_are_settings(
    database: Database, session: StoredSession, setting: str, kind: str
) -> None:
    assert getattr(forget_after(database, 2.9, **{setting: 3.0}), kind) == 0
    assert getattr(forget_after(database, 3, **{setting: 3.0}), kind) == 1


def test_a_conversation_is_kept_as_long_as_its_session(
    database: Database, session: StoredSession
) -> None:
    kept = {"sessions", "messages", "summaries", "turn_events", "cursors", "guards"}
    before = contents(database)
    forget_after(database, 3000)
    after = contents(database)
    assert {name: after[name] for name in kept} == {name: before[name] for name in kept}
    assert after["messages"]
    assert after["turn_events"]


def test_events_stay_until_their_session_has_ended_long_ago(
    database: Database, session: StoredSession
) -> None:
    others = [StoredSession.create(database, f"other-{number}") for number in range(25)]
    for other in others:
        other.append([user("question"), assistant("a")])
        other.append([user("question"), assistant("b")])
    with database.write() as connection:
        for other in others:
            sessions.close(connection, database, other.key)
        sessions.reopen(connection, others[0].key)
    assert forget_after(database, 364.9).events == 0
    assert forget_after(database, 365, events_days=366).events == 0
    assert forget_after(database, 365).events == 2 * 24
    kept = rows_of(database, "SELECT DISTINCT session_key FROM turn_events ORDER BY session_key")
    assert kept == [(session.key,), (others[0].key,)]


def test_open_and_dead_jobs_are_kept(database: Database, session: StoredSession) -> None:
    worker = Worker(database)
    worker.dead_letter(worker.take(session.enqueue(JobKind.MICRO)))
    session.enqueue(JobKind.BATCH, delay_ms=3000 * DAY)
    worker.take(session.enqueue())
    assert forget_after(database, 3000).jobs == 1
    states = rows_of(database, "SELECT state FROM jobs ORDER BY id")
    assert states == [("dead",), ("due",), ("running",)]


def test_a_job_is_old_when_it_was_finished_long_ago(
    database: Database, session: StoredSession
) -> None:
    due = session.enqueue(JobKind.MICRO)
    worker = Worker(database).after(20 * DAY)
    worker.finish(worker.take(due))
    assert forget_after(database, 26).jobs == 1
    assert forget_after(database, 27).jobs == 1


def test_an_answer_that_an_open_job_may_commit_is_kept(
    database: Database, session: StoredSession
) -> None:
    worker = Worker(database)
    claim = worker.take(session.enqueue(JobKind.MICRO))
    worker.release(claim, delay_ms=30 * DAY)
    assert forget_after(database, 20).answers == 0
    late = worker.after(30 * DAY)
    again = late.claim(claim.job_id)
    assert again is not None
    late.finish(again)
    assert forget_after(database, 31).answers == 1


def test_many_are_forgotten_in_pages_past_those_that_stay(database: Database) -> None:
    session = StoredSession.create(database)
    with database.write() as connection:
        for state, failed in (("dead", "1"), ("done", "NULL")):
            connection.execute(
                sql(
                    "INSERT INTO jobs (session_key, kind, state, queue, trigger, run_at,"
                    " failed_last_at, created_at, updated_at)"
                    f" {NUMBERS.format(450)} SELECT {session.key}, 'turn', '{state}', 'turns', 't',"
                    f" 1, {failed}, 1, 1 FROM numbers"
                )
            )
        connection.execute(
            sql(
                "INSERT INTO answers (session_key, question, text, model, model_ms, created_at)"
                f" {NUMBERS.format(450)} SELECT {session.key}, 'q' || n, 't', 'm', 0, 1"
                " FROM numbers"
            )
        )
    assert forget_after(database, 0) == Deleted(jobs=450, answers=450)
    assert (left(database, "jobs"), left(database, "answers")) == (450, 0)


def test_what_is_young_is_hardly_read(database: Database, session: StoredSession) -> None:
    with database.write() as connection:
        connection.execute(
            sql(
                "INSERT INTO attempts (session_key, kind, trigger, outcome, messages_before,"
                " messages_after, tokens_before, tokens_after, cursor, passes, tokens_saved,"
                f" created_at) {NUMBERS.format(1000)} SELECT {session.key}, 'micro', 't', 'o', 0,"
                " 0, 0, 0, 0, 0, 0, 4102444800000 FROM numbers"
            )
        )
    with counted(database) as work:
        assert forget_after(database, 0) == Deleted()
    assert work.statements <= 10
    assert work.rows_written == 0
