"""`afterturn dead`: what operators see of jobs that were given up, and do about them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from afterturn.exits import Exit
from producers import Gateway
from storage.engine import Database
from storage.jobs import DueJob, JobKind, job_records
from tests.support.programs.command_line import invoke
from tests.support.sessions.gateways import assistant, url_of, user
from tests.support.sessions.stored_jobs import Worker
from tests.support.sessions.stored_session import StoredSession
from workers.policy.failures import RetryPolicy
from workers.runtime.context import WorkerContext
from workers.runtime.jobs import Crashed, work
from workers.settings import Settings, SettingsSource
from workers.summariser.extractive.local import LocalSummariser

SAID = "the launch code is tangerine"


@pytest.fixture
def database(database: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Database:
    """Return a database that commands of this process find."""
    monkeypatch.setenv("DATABASE_URL", url_of(database))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configuration"))
    return database


@pytest.fixture
def session(database: Database) -> StoredSession:
    return StoredSession.create(database, "talk")


def died(session: StoredSession, kind: JobKind = JobKind.TURN, **more: Any) -> int:
    """Make a job due in the session and let it fail for good; return its number."""
    due: DueJob = session.enqueue(kind, **more)
    worker = Worker(session.database)
    worker.dead_letter(worker.take(due))
    return due.id


def open_jobs(database: Database) -> list[int]:
    with database.read() as connection:
        return [job.id for job in job_records.open_jobs(connection)]


def listed(*arguments: str) -> list[int]:
    document = invoke(*arguments, "--json").document
    return [job["id"] for job in document["jobs"]]


def test_a_job_that_crashed_in_a_worker_is_shown_with_its_frames_and_without_a_word_that_was_said(
    database: Database, gateway: Gateway
) -> None:
    gateway.open_session("talk")
    gateway.finalize_turn("talk", [user(SAID), assistant(SAID)])
    [job] = open_jobs(database)

    def break_off(point: str) -> None:
        if point == "decided":
            raise ValueError(SAID)

    settings = SettingsSource.fixed(Settings(database_url=url_of(database)))
    policy = RetryPolicy(base_seconds=0.0, longest_seconds=0.0)
    context = WorkerContext(
        database, settings, LocalSummariser(), retry=policy, failpoint=break_off
    )
    ends = [work(context, job) for _ in range(3)]
    assert [isinstance(end, Crashed) and end.dead for end in ends] == [False, False, True]
    shown = invoke("dead", "show", str(job))
    assert shown.code == Exit.OK
    for expected in ("talk", "ValueError", "Where it failed:", "turn/job.py", "run_turn"):
        assert expected in shown.out
    document = invoke("dead", "show", str(job), "--json").document
    assert document["reason"] == "ValueError"
    assert "turn/job.py" in document["trace"]
    assert document["attempts"] == 3
    assert document["first_failed_at"] <= document["last_failed_at"]
    for text in (shown.out, str(document), invoke("dead", "list").out):
        assert "tangerine" not in text


def test_what_a_person_asked_for_is_shown_without_their_words(session: StoredSession) -> None:
    job = died(session, JobKind.BATCH, trigger="manual", options={"focus": SAID, "keep_last": 3})
    shown = invoke("dead", "show", str(job)).out
    assert "focus (28 characters), keep_last 3" in shown
    assert "batch, a person" in shown
    assert "tangerine" not in shown
    assert invoke("dead", "show", str(job), "--json").document["options"] == {
        "focus": "(28 characters)",
        "keep_last": 3,
    }


def test_dead_jobs_of_every_owner_are_listed_page_by_page_and_by_what_they_were(
    database: Database, session: StoredSession
) -> None:
    turn, micro = died(session), died(session, JobKind.MICRO)
    anns = died(StoredSession.create(database, "hers", owner="ann"))
    assert listed("dead", "list") == [anns, micro, turn]
    assert listed("dead", "list", "--kind", "micro") == [micro]
    assert listed("dead", "list", "--owner", "ann") == [anns]
    assert listed("--owner", "ann", "dead", "list") == [anns]
    assert listed("dead", "list", "--reason", "KeyError") == [anns, micro, turn]
    assert listed("dead", "list", "--reason", "Key") == []
    page = invoke("dead", "list", "--limit", "2", "--json").document
    assert page["next"] == micro
    assert page["reasons"] == {"KeyError": 3}
    assert listed("dead", "list", "--before", str(page["next"])) == [turn]
    shown = invoke("dead", "list", "--limit", "2")
    assert "hers" in shown.out
    assert f"--before {micro}" in shown.err


def test_where_nothing_is_dead_the_list_says_so(session: StoredSession) -> None:
    assert invoke("dead", "list").err == "No job is dead.\n"
    died(session)
    assert "None of the 1 dead job" in invoke("dead", "list", "--kind", "batch").err


def test_retried_jobs_are_due_again(database: Database, session: StoredSession) -> None:
    turn, micro = died(session), died(session, JobKind.MICRO)
    ended = invoke("dead", "retry", str(turn), str(micro), "--json")
    assert ended.code == Exit.OK
    retried = ended.document["retried"]
    assert [one["dead"] for one in retried] == [turn, micro]
    assert sorted(one["job"] for one in retried) == open_jobs(database)
    assert listed("dead", "list") == []


@pytest.mark.parametrize("command", ["retry", "drop"])
def test_a_job_that_is_not_dead_is_named_and_then_nothing_is_done(
    command: str, database: Database, session: StoredSession
) -> None:
    dead = died(session)
    due = session.enqueue()
    ended = invoke("dead", command, str(dead), str(due.id), "999999")
    assert ended.code == Exit.NOT_FOUND
    assert f"job {due.id} is not dead but due; job 999999 does not exist" in ended.err
    assert ended.out == ""
    assert listed("dead", "list") == [dead]
    assert open_jobs(database) == [due.id]
    assert invoke("dead", "show", "999999").code == Exit.NOT_FOUND


def test_dropped_jobs_are_gone_from_the_list_and_nothing_is_due(
    database: Database, session: StoredSession
) -> None:
    first, second = died(session), died(session)
    ended = invoke("dead", "drop", str(first))
    assert (ended.code, "Dropped 1 dead job" in ended.out) == (Exit.OK, True)
    assert listed("dead", "list") == [second]
    assert open_jobs(database) == []


def test_all_of_one_reason_are_retried_page_by_page(
    database: Database, session: StoredSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("afterturn.commands.dead.AT_ONCE", 2)
    sessions = [StoredSession.create(database, f"s{number}") for number in range(5)]
    dead = [died(one) for one in sessions]
    silent = died(session)
    with database.write() as connection:
        connection.exec_driver_sql(
            f"UPDATE jobs SET reason = 'the worker went silent' WHERE id = {silent}"
        )
    ended = invoke("dead", "retry", "--reason", "KeyError")
    assert "The work of 5 dead jobs is due again." in ended.out
    assert listed("dead", "list") == [silent]
    assert len(open_jobs(database)) == len(dead)


def test_dropping_by_reason_wants_a_yes_and_says_how_many(session: StoredSession) -> None:
    dead = [died(session) for _ in range(3)]
    ended = invoke("dead", "drop", "--reason", "KeyError")
    assert ended.code == Exit.USAGE
    assert "this drops 3 dead jobs: add --yes" in ended.err
    assert listed("dead", "list") == dead[::-1]
    assert invoke("dead", "drop", "--reason", "KeyError", "--yes").code == Exit.OK
    assert listed("dead", "list") == []


def test_a_reason_that_no_dead_job_has_is_reported_with_those_there_are(
    session: StoredSession,
) -> None:
    died(session)
    ended = invoke("dead", "retry", "--reason", "KeyErro")
    assert ended.code == Exit.NOT_FOUND
    assert "did you mean 'KeyError'?" in ended.err
