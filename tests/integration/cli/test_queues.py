"""`afterturn queues`: what waits where, and pausing, resuming and draining."""

from __future__ import annotations

import re
import signal
from pathlib import Path
from typing import Any

import pytest
import redis

from afterturn.commands.queues import wait_until_idle
from afterturn.exits import Exit
from storage.engine import Database
from storage.jobs import JobKind, JobState, queue_states
from tasks.names import MICRO, QUEUES, TURNS
from tests.support.observing.waiting import bound, wait_until
from tests.support.programs.command_line import invoke
from tests.support.programs.processes import Processes
from tests.support.servers.servers import RedisServer
from tests.support.sessions.gateways import gateway_on, rows_of, url_of, user
from tests.support.sessions.stored_jobs import LEASE_MS, Worker
from tests.support.sessions.stored_session import StoredSession, later


@pytest.fixture
def database(database: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Database:
    """Return a database that commands of this process find."""
    monkeypatch.setenv("DATABASE_URL", url_of(database))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configuration"))
    return database


@pytest.fixture
def session(database: Database) -> StoredSession:
    return StoredSession.create(database)


def queues() -> dict[str, dict[str, Any]]:
    ended = invoke("queues", "--json")
    assert ended.code == Exit.OK
    return {queue["name"]: queue for queue in ended.document["queues"]}


def paused(database: Database) -> list[str]:
    with database.read() as connection:
        return [queue.name for queue in queue_states.paused(connection)]


def changed(database: Database, statement: str) -> None:
    with database.write() as connection:
        connection.exec_driver_sql(statement)


# --- a look ----------------------------------------------------------------------------------


def test_every_queue_is_shown_with_what_waits_there(
    database: Database, session: StoredSession
) -> None:
    worker = Worker(database)
    session.enqueue(queue=TURNS)
    changed(database, "UPDATE jobs SET run_at = run_at - 90000")
    other, third = (StoredSession.create(database, name) for name in ("a", "b"))
    other.enqueue(queue=TURNS, delay_ms=3_600_000)
    worker.take(other.enqueue(JobKind.MICRO, queue=MICRO))
    worker.dead_letter(worker.take(third.enqueue(JobKind.MICRO, queue=MICRO)))
    found = queues()
    assert tuple(found) == QUEUES
    turns, micro = found[TURNS], found[MICRO]
    assert (turns["due"], turns["waiting"], turns["running"], turns["dead"]) == (1, 1, 0, 0)
    assert 90 <= turns["oldest_due_seconds"] < 180
    assert (micro["due"], micro["running"], micro["dead"]) == (0, 1, 1)
    assert micro["oldest_due_seconds"] is None
    shown = invoke("queues").out
    for expected in (*QUEUES, "works"):
        assert expected in shown
    # As old as above, in seconds or minutes: time goes on between the two.
    assert re.search(r"\b(9\d|1[01]\d)\.\d s|\b[23] min", shown)


def test_a_paused_queue_says_since_when_and_why(database: Database) -> None:
    assert invoke("queues", "pause", "micro", "batch", "--reason", "an upgrade").code == Exit.OK
    found = queues()
    assert [name for name in found if found[name]["paused"]] == ["micro", "batch"]
    assert found["micro"]["paused_reason"] == "an upgrade"
    assert found["micro"]["paused_since"].startswith("20")
    assert "(an upgrade)" in invoke("queues").out


def test_queues_of_a_newer_version_are_shown_too(
    database: Database, session: StoredSession
) -> None:
    session.enqueue(queue="dreams")
    assert queues()["dreams"]["due"] == 1


def test_messages_at_the_broker_are_counted(
    database: Database, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert {queue["messages"] for queue in queues().values()} == {None}
    monkeypatch.setenv("BROKER_URL", redis_url)
    with gateway_on(url_of(database), broker_url=redis_url) as gateway:
        for number in range(3):
            gateway.open_session(f"s{number}")
            gateway.finalize_turn(f"s{number}", [user("Hi.")])
    with redis.Redis.from_url(redis_url) as client:
        wait_until(lambda: client.llen(TURNS) == 3, "every turn was notified")
    found = queues()
    assert found[TURNS]["messages"] == 3
    assert found[MICRO]["messages"] == 0
    assert "messages" in invoke("queues").out


@pytest.mark.parametrize("hangs", [False, True])
def test_a_broker_that_does_not_answer_is_reported_and_jobs_are_shown_all_the_same(
    hangs: bool,
    database: Database,
    session: StoredSession,
    own_redis: RedisServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("afterturn.broker.SECONDS", 1.0)
    monkeypatch.setenv("BROKER_URL", own_redis.url.replace("://", "://:hunter2@"))
    session.enqueue(queue=TURNS)
    if hangs:
        own_redis.pause()
    else:
        own_redis.kill()
    document = invoke("queues", "--json").document
    assert document["queues"][0]["due"] == 1
    assert document["queues"][0]["messages"] is None
    assert document["broker"]["problem"]
    shown = invoke("queues")
    assert shown.code == Exit.OK
    assert "does not answer" in shown.err
    assert "hunter2" not in shown.err + shown.out + str(document)


# --- pause and resume ------------------------------------------------------------------------


def test_paused_queues_are_resumed_by_name_or_all(database: Database) -> None:
    invoke("queues", "pause", "turns", "micro", "batch")
    ended = invoke("queues", "resume", "turns", "prune", "--json")
    assert ended.document == {"resumed": ["turns"]}
    assert paused(database) == ["batch", "micro"]
    assert "Resumed batch, micro." in invoke("queues", "resume", "--all").out
    assert paused(database) == []
    assert "No queue was paused." in invoke("queues", "resume", "--all").out


def test_a_queue_that_is_not_known_is_refused_and_nothing_is_paused(database: Database) -> None:
    assert invoke("queues", "pause", "turns", "micor").code == Exit.USAGE
    assert paused(database) == []


def test_a_queue_that_a_newer_version_has_paused_can_be_resumed(database: Database) -> None:
    with database.write() as connection:
        queue_states.pause(connection, database, ["dreams"])
    assert invoke("queues", "resume", "dreams", "--json").document == {"resumed": ["dreams"]}


# --- drain -----------------------------------------------------------------------------------


class Nothing:
    """Progress that nobody looks at, but the test."""

    def __init__(self) -> None:
        self.steps: list[str] = []

    def step(self, text: str) -> None:
        self.steps.append(text)

    def remark(self, text: str) -> None:
        self.steps.append(text)


def test_an_idle_deployment_is_drained_at_once(database: Database, session: StoredSession) -> None:
    session.enqueue()
    ended = invoke("queues", "drain", "--json")
    assert ended.document == {"drained": True, "running": 0, "waiting": 1}
    assert paused(database) == sorted(QUEUES)
    assert invoke("queues").out.count("(drained for maintenance)") == len(QUEUES)


def test_draining_waits_until_the_last_job_has_ended(
    database: Database, session: StoredSession
) -> None:
    worker = Worker(database)
    claims = [
        worker.take(one.enqueue()) for one in (session, StoredSession.create(database, "other"))
    ]
    progress = Nothing()

    def finish_one(_seconds: float) -> None:
        if claims:
            worker.finish(claims.pop())

    assert wait_until_idle(database, progress, seconds=None, sleep=finish_one) == 0
    assert progress.steps == ["2 jobs still running", "1 job still running"]
    assert claims == []


def test_a_claim_that_was_under_way_when_the_queues_were_paused_is_waited_for(
    database: Database, session: StoredSession
) -> None:
    worker = Worker(database)
    due = session.enqueue()
    looks: list[str] = []

    def pass_by(_seconds: float) -> None:
        looks.append("look")
        if len(looks) == 1:
            worker.take(due)
        if len(looks) == 3:
            changed(database, "UPDATE jobs SET state = 'done'")

    assert wait_until_idle(database, Nothing(), seconds=None, sleep=pass_by) == 0
    assert len(looks) == 4


def test_a_job_whose_worker_is_gone_does_not_hold_up_a_drain_for_ever(
    database: Database, session: StoredSession
) -> None:
    worker = Worker(database)
    claim = worker.take(session.enqueue())
    afterwards = later(database, LEASE_MS)
    assert wait_until_idle(afterwards, Nothing(), seconds=None, sleep=lambda _: None) == 0
    assert worker.job(claim.job_id).state is JobState.DUE


def test_a_drain_that_takes_too_long_fails_and_leaves_the_queues_paused(
    database: Database, session: StoredSession
) -> None:
    Worker(database).take(session.enqueue())
    ended = invoke("queues", "drain", "--timeout", "0")
    assert ended.code == Exit.FAILED
    assert "1 job still running after 0 s" in ended.err
    assert "resume --all" in ended.err
    assert paused(database) == sorted(QUEUES)


def test_ctrl_c_leaves_the_queues_paused_and_says_so(
    database: Database, session: StoredSession, processes: Processes
) -> None:
    Worker(database).take(session.enqueue())
    child = processes.python(
        "-m", "afterturn", "queues", "drain", env={"DATABASE_URL": url_of(database)}
    )
    child.wait_for("1 job still running")
    child.send(signal.SIGINT)
    assert child.wait(bound(20)) == Exit.INTERRUPTED
    assert "All queues stay paused" in child.output
    assert "Traceback" not in child.output
    assert paused(database) == sorted(QUEUES)
    assert rows_of(database, "SELECT state FROM jobs") == [("running",)]
