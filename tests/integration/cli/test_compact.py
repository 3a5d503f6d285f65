"""A person has a session compacted."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from afterturn.compaction.result import read_result
from afterturn.compaction.run import ask, open_worker, work_here
from afterturn.exits import Exit
from producers import Gateway, Session
from storage.conversations import sessions
from storage.jobs import JobKind, job_records
from storage.jobs.job_records import JobRecord
from tests.support.model.behaviours import Good, Silence, Status
from tests.support.model.server import ModelServer
from tests.support.observing.waiting import bound, wait_until
from tests.support.programs.command_line import ESCAPE, Ended, program_environment
from tests.support.programs.person import DESK, Person, stored
from tests.support.programs.processes import Processes
from tests.support.sessions.conversations import turn
from tests.support.sessions.gateways import contents, gateway_on, migrated, stored_messages
from tests.support.sessions.play import playing
from tests.support.sessions.stored_jobs import Worker
from workers.batch.span import CompactionOptions
from workers.policy.failures import RetryPolicy
from workers.policy.triggers import Trigger
from workers.settings import Settings, SettingsSource

TURNS = 16
MIDDLE = "3 to 54"


@pytest.fixture
def url(sqlite_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    monkeypatch.setenv("DATABASE_URL", sqlite_url)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configuration"))
    return sqlite_url


@pytest.fixture
def gateway(url: str) -> Iterator[Gateway]:
    with gateway_on(url) as opened:
        yield opened


@pytest.fixture
def session(gateway: Gateway) -> Session:
    """Sixteen turns of the airline desk, of which a pass takes some twelve."""
    opened = gateway.open_session("desk", source="telegram", model="m")
    for number in range(TURNS):
        gateway.finalize_turn(opened, turn(number))
    return opened


@pytest.fixture
def person(tmp_path: Path) -> Person:
    return Person(tmp_path)


def compacts(person: Person, *arguments: str) -> Ended:
    return person.types("compact", "desk", *arguments)


def batch_job(url: str) -> JobRecord | None:
    with stored(url) as database, database.read() as connection:
        found = job_records.open_jobs(connection)
    return next((job for job in found if job.kind is JobKind.BATCH), None)


def everything(url: str) -> dict[str, Any]:
    with stored(url) as database:
        return contents(database)


# --- looking ---------------------------------------------------------------------------------


def test_a_preview_shows_what_would_be_done_and_changes_nothing(
    url: str, session: Session, person: Person
) -> None:
    before = everything(url)
    shown = compacts(person, "--preview")
    document = compacts(person, "--preview", "--json").document["preview"]
    assert everything(url) == before
    assert (shown.code, shown.err) == (Exit.OK, "")
    for expected in ("head", MIDDLE, "tail", "afterwards", "Saving: about", "4,000 tokens",
                 "built-in local one", "user messages word for word"):  # fmt: skip
        assert expected in shown.out
    assert "request" not in shown.out.partition("Summariser")[2]
    parts = [document[name] for name in ("head", "summarised", "held", "tail")]
    for name in ("messages", "by_users", "tokens"):
        assert sum(part[name] for part in parts) == document["view"][name]
    assert document["view"]["messages"] == 4 * TURNS
    assert document["tokens_after"] == document["view"]["tokens"] - document["saved_tokens"]
    assert document["occupancy"] == document["view"]["tokens"] / 4000


def test_a_preview_names_the_model_and_how_often_it_is_asked(
    session: Session, tmp_path: Path
) -> None:
    with ModelServer() as server:
        shown = compacts(Person(tmp_path, server), "--preview")
        assert f"small at {server.base_url}" in shown.out
        assert "1 request expected" in shown.out
        assert server.requests == []


def test_what_was_expected_comes_about(url: str, session: Session, person: Person) -> None:
    document = compacts(person, "--yes", "--json").document
    expected, result = document["preview"], document["result"]
    assert (result["outcome"], result["good"], result["changed"]) == ("compacted", True, True)
    assert result["messages_before"] == expected["view"]["messages"]
    assert result["messages_after"] == expected["rows_after"]
    assert result["tokens_before"] == expected["view"]["tokens"]
    assert result["tokens_after"] <= expected["tokens_after"] < result["tokens_before"]
    assert result["summary"]["kind"] == "batch"
    assert (result["summary"]["first_position"], result["summary"]["last_position"]) == (3, 54)
    assert result["summary"]["model"] == "local"


def test_a_session_with_nothing_in_its_middle_is_reported_and_left(
    url: str, gateway: Gateway, person: Person
) -> None:
    gateway.open_session("desk")
    gateway.finalize_turn("desk", turn(1))
    before = everything(url)
    ended = compacts(person, "--yes")
    assert (ended.code, ended.out) == (Exit.OK, "Nothing to compact: the middle is empty.\n")
    document = compacts(person, "--yes", "--json").document
    assert document["nothing_to_compact"] == "the middle is empty"
    assert (document["preview"], document["result"]) == (None, None)
    assert everything(url) == before


# --- agreeing --------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [(), ("--queue",), ("--json",)])
def test_without_a_terminal_nothing_is_done_unasked(
    url: str, session: Session, person: Person, arguments: tuple[str, ...]
) -> None:
    before = everything(url)
    ended = compacts(person, *arguments)
    assert (ended.code, ended.out) == (Exit.USAGE, "")
    assert "--yes" in ended.err
    assert "--preview" in ended.err
    assert len(ended.err.splitlines()) == 1
    assert everything(url) == before


@pytest.mark.parametrize(
    ("answer", "code", "expected"),
    [(b"y\n", 0, "Compacted: "), (b"n\n", 0, "Nothing was changed."), (b"\x03", 130, "Nothing")],
)
def test_at_a_terminal_a_person_is_asked_after_the_preview(
    url: str,
    session: Session,
    person: Person,
    tmp_path: Path,
    answer: bytes,
    code: int,
    expected: str,
) -> None:
    before = everything(url)
    ended, screen = at_a_terminal(person, tmp_path, answer)
    assert ended == code
    asked, after = screen.partition("Compact it now? [y/N]:")[::2]
    assert "Saving: about" in asked
    assert expected in after
    assert (everything(url) == before) == (answer != b"y\n")


AT_TERMINAL = (
    "import os, sys\n"
    "os.login_tty(0)\n"
    "os.execv(sys.executable, [sys.executable, '-m', 'afterturn', *sys.argv[1:]])\n"
)
"""The program with a terminal of its own, whose keys send signals."""


MOST_ANSWERS = 10


def program_ended(program: subprocess.Popen[bytes]) -> bool:
    """Return whether it ends within a few seconds."""
    try:
        program.wait(5)
    except subprocess.TimeoutExpired:
        return False
    return True


def rest_of(terminal: int) -> bytes:
    """Return what is still to be read of a terminal that nobody writes to any more."""
    rest = b""
    try:
        while chunk := os.read(terminal, 65536):
            rest += chunk
    except OSError:
        pass  # How Linux reports that the other end is closed.
    return rest


def at_a_terminal(person: Person, home: Path, answer: bytes) -> tuple[int, str]:
    """Run `compact desk` at a terminal, answer its question; return code and screen."""
    ours, theirs = pty.openpty()
    environment = {
        **program_environment(home),
        "DATABASE_URL": os.environ["DATABASE_URL"],
        "TERM": "xterm-256color",
        "COLUMNS": "100",
    }
    screen = b""
    with subprocess.Popen(
        [sys.executable, "-c", AT_TERMINAL, "--config", str(person.file), "compact", "desk"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment,
        cwd=home,
    ) as program:
        os.close(theirs)
        try:
            while b"[y/N]" not in screen:
                screen += os.read(ours, 65536)
            for _ in range(MOST_ANSWERS):
                # What is typed just before the program reads may be lost, as a person's key is.
                os.write(ours, answer)
                if program_ended(program):
                    break
            screen += rest_of(ours)
            code = program.wait(5)
        finally:
            program.kill()
    os.close(ours)
    assert ESCAPE.encode() in screen
    return code, screen.decode()


# --- acting ----------------------------------------------------------------------------------


def test_a_compaction_keeps_every_original_and_can_be_taken_back(
    url: str, gateway: Gateway, session: Session, person: Person
) -> None:
    before = gateway.load_context(session).messages
    ended = compacts(person, "--yes")
    assert ended.code == Exit.OK
    assert "Compacted: 64 → 13 messages" in ended.out
    assert "Batch summary: " in ended.out
    assert "`afterturn context desk`" in ended.out
    assert "`afterturn undo desk`" in ended.out
    with stored(url) as database:
        assert stored_messages(database, session) == before
    assert batch_job(url) is None
    undone = person.types("undo", "desk")
    assert "(batch summary)" in undone.out
    assert "52 rows came back" in undone.out
    assert "wait for its next turn" in undone.out
    assert gateway.load_context(session).messages == before


def test_a_model_is_asked_for_the_topic_and_the_part_that_were_named(
    session: Session, tmp_path: Path
) -> None:
    with ModelServer() as server:
        person = Person(tmp_path, server)
        ended = compacts(person, "--yes", "--focus", "certificates and refunds", "--keep", "5")
        [request] = server.requests
    assert ended.code == Exit.OK
    assert "1 request" in ended.out
    prompt = str(request["messages"])
    assert "certificates and refunds" in prompt
    assert "Request 10" in prompt
    assert "Request 11" not in prompt


@pytest.mark.parametrize(
    ("arguments", "span"),
    [
        (("--keep", "10"), (3, 23)),
        (("--up-to", "31"), (3, 31)),
        (("--around", "30"), (20, 39)),
    ],
)
def test_a_person_says_which_part_is_taken(
    session: Session, person: Person, arguments: tuple[str, ...], span: tuple[int, int]
) -> None:
    document = compacts(person, "--yes", "--json", *arguments).document
    taken = document["preview"]["summarised"]
    assert (taken["first_position"], taken["last_position"]) == span
    summary = document["result"]["summary"]
    assert (summary["first_position"], summary["last_position"]) == span
    assert document["result"]["stuck"] is False


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--keep", "2", "--up-to", "9"), "--up-to: goes not together with --keep"),
        (("--up-to", "64"), "--up-to: must be from 0 to 63, is 64"),
        (("--around", "5000"), "--around: must be from 0 to 63"),
        (("--keep", "0"), "--keep"),
        (("--keep", "20000"), "--keep: must be from 1 to 10,000"),
    ],
)
def test_requests_that_cannot_be_meant_are_refused_by_their_options(
    url: str, session: Session, person: Person, arguments: tuple[str, ...], expected: str
) -> None:
    before = everything(url)
    ended = compacts(person, "--yes", *arguments)
    assert ended.code == Exit.USAGE
    assert expected in ended.err
    assert everything(url) == before


def test_a_session_that_is_not_there_is_reported(gateway: Gateway, person: Person) -> None:
    ended = person.types("compact", "nobody", "--yes")
    assert (ended.code, ended.out) == (Exit.NOT_FOUND, "")
    assert "'nobody'" in ended.err


def test_a_switch_that_is_off_and_a_cooldown_keep_no_person_back(
    url: str, session: Session, tmp_path: Path
) -> None:
    with ModelServer() as server:
        server.always(Status(401))
        person = Person(tmp_path, server, abort_on_summary_failure=True, enabled=False)
        assert compacts(person, "--yes").code == Exit.FAILED
        assert "cooldown" in person.types("guards", "list").out
    assert compacts(Person(tmp_path, enabled=False), "--yes").code == Exit.OK
    assert "No guard suppresses passes of any session." in person.types("guards", "list").out


# --- leaving it to workers -------------------------------------------------------------------


def test_a_queued_request_is_due_with_its_options_and_is_not_worked_here(
    url: str, gateway: Gateway, session: Session, person: Person
) -> None:
    before = gateway.load_context(session).messages
    ended = compacts(person, "--queue", "--yes", "--keep", "5", "--focus", "refunds")
    job = batch_job(url)
    assert job is not None
    assert ended.code == Exit.OK
    assert f"Job {job.id} is due" in ended.out
    assert (job.trigger, job.attempt) == (Trigger.MANUAL, 0)
    assert job.options == {"keep_last": 5, "focus": "refunds"}
    assert gateway.load_context(session).messages == before
    again = compacts(person, "--queue", "--yes")
    assert "its options count" in again.err
    document = compacts(person, "--queue", "--yes", "--json", "--keep", "5", "--focus", "refunds")
    assert document.err == ""
    assert document.document["job"] == job.id
    with playing(url, protect_last_n=8, threshold_tokens=4000) as play:
        play.work_off()
    assert len(gateway.load_context(session).messages) < len(before)


def test_a_terminal_without_the_key_can_leave_the_work_to_those_that_have_it(
    url: str, session: Session, tmp_path: Path
) -> None:
    person = Person(tmp_path)
    person.summarises_with(provider="openai", model="small")
    person.save()
    here = compacts(person, "--yes")
    assert (here.code, here.out) == (Exit.CONFIGURATION, "")
    assert "OPENAI_API_KEY" in here.err
    assert batch_job(url) is None
    queued = compacts(person, "--queue", "--yes")
    assert queued.code == Exit.OK
    assert "unknown here" in queued.out
    assert batch_job(url) is not None


def test_a_job_that_a_worker_has_is_waited_for(url: str, session: Session) -> None:
    settings = Settings.model_validate({"database_url": url, "compression": DESK})
    source, remarks = SettingsSource.fixed(settings), Remarks()
    with stored(url) as database, open_worker(database, source, {}, Event()) as context:
        with database.read() as connection:
            record = sessions.fetch(connection, session.key)
        asked, others = ask(database, record, CompactionOptions(), source, notify=False)
        assert not others
        elsewhere = Worker(database, "elsewhere")
        claim = elsewhere.claim(asked.job_id)
        assert claim is not None
        here = Thread(target=work_here, args=(context, asked, remarks, Event()))
        here.start()
        wait_until(lambda: bool(remarks.remarks), "the person sees who works")
        assert here.is_alive()
        elsewhere.finish(claim)
        here.join(10)
        assert not here.is_alive()
    assert remarks.remarks == ["A worker has the session now; waiting for it."]


# --- failing ---------------------------------------------------------------------------------


def test_a_failure_names_its_class_the_placeholder_and_how_long_automatic_passes_rest(
    url: str, session: Session, tmp_path: Path
) -> None:
    with ModelServer() as server:
        server.always(Status(401))
        ended = compacts(Person(tmp_path, server), "--yes")
        assert len(server.requests) == 1
    assert ended.code == Exit.FAILED
    assert "No summary could be had (auth), so a placeholder stands in: 64 → 13" in ended.out
    assert "Placeholder, made without a model" in ended.out
    assert "Automatic passes rest until" in ended.out
    assert "for 10 min" in ended.out
    assert "`afterturn guards clear desk`" in ended.out
    assert "Workers replace it as soon as the model answers, first at" in ended.out
    assert "`afterturn undo desk`" in ended.out
    job = batch_job(url)
    assert job is not None
    assert job.trigger == Trigger.REPLACE_PLACEHOLDER


def test_a_session_whose_failures_abort_is_reported_unchanged(
    url: str, gateway: Gateway, session: Session, tmp_path: Path
) -> None:
    before = gateway.load_context(session).messages
    with ModelServer() as server:
        server.always(Status(404))
        person = Person(tmp_path, server, abort_on_summary_failure=True)
        ended = compacts(person, "--yes", "--json")
    assert ended.code == Exit.FAILED
    result = ended.document["result"]
    assert (result["outcome"], result["error_class"]) == ("failed", "not_found")
    assert (result["changed"], result["attempts"], result["requests"]) == (False, 1, 1)
    assert result["cooldown_until"] is not None
    assert (result["summary"], result["replacement_due_at"]) == (None, None)
    assert gateway.load_context(session).messages == before


def test_an_attempt_that_may_be_repeated_is_repeated_here(url: str, session: Session) -> None:
    remarks = Remarks()
    with ModelServer() as server:
        model = {"base_url": server.base_url, "model": "small"}
        settings = Settings.model_validate(
            {"database_url": url, "compression": DESK, "auxiliary": {"compression": model}}
        )
        source = SettingsSource.fixed(settings)
        server.fail_next(Status(503), Status(429, retry_after="0"))
        with stored(url) as database, open_worker(database, source, {}, Event()) as context:
            with database.read() as connection:
                record = sessions.fetch(connection, session.key)
            asked, _ = ask(database, record, CompactionOptions(), source, notify=False)
            hasty = replace(context, retry=RetryPolicy(base_seconds=0.0, longest_seconds=0.0))
            work_here(hasty, asked, remarks, Event())
            result = read_result(database, asked)
        assert len(server.requests) == 3
    assert [one.outcome for one in result.tries] == ["failed", "failed", "compacted"]
    assert result.good
    assert ["server_error" in remarks.remarks[0], "rate_limited" in remarks.remarks[1]] == [
        True,
        True,
    ]


def test_ctrl_c_leaves_the_session_as_it_was_and_nobody_goes_on(
    url: str, gateway: Gateway, session: Session, processes: Processes, tmp_path: Path
) -> None:
    before = gateway.load_context(session).messages
    with ModelServer() as server:
        server.always(Silence())
        person = Person(tmp_path, server)
        child = processes.python(
            "-m", "afterturn", "--config", str(person.file), "compact", "desk", "--yes",
            env={"DATABASE_URL": url},
        )  # fmt: skip
        server.wait_for_requests(1)
        child.send(signal.SIGINT)
        assert child.wait(bound(60)) == Exit.INTERRUPTED
        assert "Interrupted: nothing was changed." in child.output
        assert "Traceback" not in child.output
        server.always(Status(401))
    assert gateway.load_context(session).messages == before
    assert batch_job(url) is None


def test_a_placeholder_goes_on_waiting_when_a_person_gives_up(
    url: str, session: Session, processes: Processes, tmp_path: Path
) -> None:
    with ModelServer() as server:
        server.always(Status(401))
        person = Person(tmp_path, server)
        assert compacts(person, "--yes").code == Exit.FAILED
        with gateway_on(url) as gateway:
            for number in range(TURNS, 2 * TURNS):
                gateway.finalize_turn("desk", turn(number))
        assert person.types("guards", "clear", "--all-endpoints").code == Exit.OK
        server.always(Silence())
        child = processes.python(
            "-m", "afterturn", "--config", str(person.file), "compact", "desk", "--yes",
            env={"DATABASE_URL": url},
        )  # fmt: skip
        server.wait_for_requests(2)
        child.send(signal.SIGINT)
        assert child.wait(bound(60)) == Exit.INTERRUPTED
    job = batch_job(url)
    assert job is not None
    assert job.trigger == Trigger.REPLACE_PLACEHOLDER


def test_on_every_kind_of_database_the_commands_show_the_same(
    database_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DATABASE_URL", database_url)
    with migrated(database_url), gateway_on(database_url) as gateway:
        gateway.open_session("desk")
        for number in range(TURNS):
            gateway.finalize_turn("desk", turn(number))
    with ModelServer() as server:
        server.always(Status(401))
        person = Person(tmp_path, server)
        failed = compacts(person, "--yes", "--json").document["result"]
        assert (failed["outcome"], failed["error_class"]) == ("placeholder", "auth")
        explained = person.types("explain", "desk", "--json").document
        assert [one["kind"] for one in explained["summaries"]] == ["placeholder"]
        assert [one["name"] for one in explained["guards"]] == ["cooldown"]
        listed = person.types("guards", "list", "--json").document
        assert [one["session"] for one in listed["guards"]] == ["desk"]
        assert [one["error_class"] for one in listed["endpoints"]] == ["auth"]
        kinds = [one["kind"] for one in person.types("signals", "--json").document["signals"]]
        assert kinds == ["compaction_failed", "cooldown", "placeholder_in_use"]
        assert person.types("guards", "clear", "desk", "--all-endpoints").code == Exit.OK
        assert person.types("undo", "desk").code == Exit.OK
        server.always(Good())
        done = compacts(person, "--yes", "--json").document["result"]
        assert (done["outcome"], done["good"]) == ("compacted", True)


# --- what the other commands say of it -------------------------------------------------------


def test_placeholders_and_what_replaces_them_are_called_by_their_names(
    url: str, session: Session, tmp_path: Path
) -> None:
    with ModelServer() as server:
        server.always(Status(401))
        person = Person(tmp_path, server)
        compacts(person, "--yes")
    shown = person.types("sessions", "show", "desk").out
    for expected in (
        "placeholder, made without a model",
        "placeholder put in",
        "failed (auth)",
        "batch, a person",
        "batch, placeholder to replace",
        "automatic passes rest after a failure (auth); until",
    ):
        assert expected in shown
    document = person.types("sessions", "show", "desk", "--json").document
    assert document["batch_summary"]["kind"] == "placeholder"
    assert document["rolling_summary"] is None
    assert [one["name"] for one in document["guards"]] == ["cooldown"]
    assert "shows a placeholder" in person.types("context", "desk").err
    with playing(url, protect_last_n=8, threshold_tokens=4000) as play:
        with play.database.write() as connection:
            connection.exec_driver_sql("UPDATE jobs SET run_at = 0")
        play.work_off()
    assert "placeholder replaced" in person.types("sessions", "show", "desk").out
    assert "batch summary in a placeholder's place" in person.types("context", "desk").err
    undone = person.types("undo", "desk").out
    assert "(batch summary in a placeholder's place)" in undone
    assert "the placeholder came back into the live view" in undone
    assert "Automatic passes of this session wait for its next turn." in undone
    assert "(placeholder, made without a model)" in person.types("undo", "desk").out
    held = person.types("guards", "list", "desk", "--json").document["guards"]
    assert "undone" in [one["name"] for one in held]


# --- what the tests share --------------------------------------------------------------------


class Remarks:
    """Keeps what a person would see pass by."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.remarks: list[str] = []

    def step(self, text: str) -> None:
        self.steps.append(text)

    def remark(self, text: str) -> None:
        self.remarks.append(text)
