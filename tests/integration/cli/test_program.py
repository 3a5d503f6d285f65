"""The program as people and other programs start it."""

from __future__ import annotations

import os
import pty
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from afterturn.exits import Exit
from producers import Gateway
from storage import guards, jobs
from storage.conversations import sessions
from storage.engine import open_database
from storage.guards import GuardName
from storage.jobs import job_records
from tests.support.model.behaviours import Silence
from tests.support.model.server import ModelServer
from tests.support.observing.waiting import bound, wait_until
from tests.support.programs.command_line import ESCAPE, Ended, execute, invoke, program_environment
from tests.support.programs.processes import Child, Processes
from tests.support.sessions.conversations import turn
from tests.support.sessions.gateways import assistant, gateway_on, user
from tests.support.sessions.play import playing

STEERING = f"Hello{ESCAPE}[2J\x07 [bold]there[/bold]"


@pytest.fixture
def url(sqlite_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """Return a database that commands of this process find, and no configuration of the
    developer's."""
    monkeypatch.setenv("DATABASE_URL", sqlite_url)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configuration"))
    return sqlite_url


@pytest.fixture
def gateway(url: str) -> Iterator[Gateway]:
    with gateway_on(url) as opened:
        yield opened


def outline(ended: Ended) -> tuple[int, str, int]:
    return ended.code, ended.out, len(ended.err.splitlines())


# --- sessions, context, undo -----------------------------------------------------------------


def test_sessions_are_listed_page_by_page_newest_first(gateway: Gateway) -> None:
    for name in ("first", "second", "third"):
        gateway.open_session(name, source="telegram", chat_id=name, title=f"Talk {name}")
        gateway.finalize_turn(name, [user("Hi."), assistant("Hello.")])
    gateway.open_session("elsewhere", source="cli")
    page = invoke("sessions", "list", "--source", "telegram", "--limit", "2", "--json").document
    rest = invoke(
        "sessions", "list", "--source", "telegram", "--before", page["next"], "--json"
    ).document
    assert [s["id"] for s in page["sessions"] + rest["sessions"]] == ["third", "second", "first"]
    assert rest["next"] is None
    assert page["sessions"][0]["turns"] == 1
    assert page["sessions"][0]["threshold_tokens"] == 96_000
    shown = invoke("sessions", "list", "--source", "telegram", "--limit", "2")
    assert "third" in shown.out
    assert "first" not in shown.out
    assert f"--before {page['next']}" in shown.err


def test_sessions_of_other_owners_are_seen_only_when_asked_for(gateway: Gateway) -> None:
    gateway.open_session("mine")
    gateway.open_session("hers", owner="ann")

    def listed(*arguments: str) -> set[str]:
        document = invoke(*arguments, "--json").document
        return {session["id"] for session in document["sessions"]}

    assert listed("sessions", "list") == {"mine"}
    assert listed("--owner", "ann", "sessions", "list") == {"hers"}
    assert listed("sessions", "list", "--all-owners") == {"mine", "hers"}
    assert invoke("sessions", "show", "hers").code == Exit.NOT_FOUND


def test_a_session_shows_how_full_it_is_and_what_was_done(gateway: Gateway, url: str) -> None:
    session = compacted(gateway, url)
    document = invoke("sessions", "show", session, "--attempts", "3", "--json").document
    [(tokens, messages, passes)] = sqlite3.connect(url.removeprefix("sqlite:///")).execute(
        "SELECT live_tokens, live_messages, passes FROM sessions"
    )
    assert document["threshold_tokens"] == 3400
    assert document["threshold_reason"].startswith("floor of 3,400")
    assert document["live_tokens"] == tokens
    assert document["live_messages"] == messages
    assert document["occupancy"] == tokens / 3400
    assert document["passes"] == passes >= 2
    assert document["rolling_summary"]["tokens"] > 0
    assert 0 < document["cursor"] < document["next_position"]
    assert len(document["attempts"]) == 3
    assert {attempt["model"] for attempt in document["attempts"]} == {"local"}
    shown = invoke("sessions", "show", session).out
    for expected in (f"{tokens:,} tokens in {messages} messages", "rolling summary", "absorbed"):
        assert expected in shown


def test_a_session_without_room_in_its_window_is_shown_all_the_same(
    gateway: Gateway, url: str
) -> None:
    gateway.open_session("odd", context_window=1000)
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as database, database:
        # Gateways refuse it now; a row of before may still say so.
        database.execute("UPDATE sessions SET reserved_output = context_window")
    document = invoke("sessions", "show", "odd", "--json").document
    assert document["occupancy"] is None
    assert "no room" in invoke("sessions", "show", "odd").out
    assert invoke("sessions", "list").code == Exit.OK


@pytest.mark.parametrize("dialect", ["openai", "anthropic", "strict"])
def test_the_context_is_what_a_gateway_would_get(gateway: Gateway, dialect: str) -> None:
    gateway.open_session("talk")
    system = {"role": "system", "content": "Be brief."}
    gateway.finalize_turn("talk", [system, user("漢字 \ud83d?"), assistant("Yes.")])
    document = invoke("context", "talk", "--dialect", dialect, "--json").document
    context = gateway.load_context("talk", dialect=dialect)
    assert document["messages"] == context.messages
    assert document["tokens"] == context.tokens
    assert document["revision"] == context.revision
    shown = invoke("context", "talk", "--dialect", dialect)
    assert "Be brief." in shown.out
    assert "漢字 \\ud83d?" in shown.out


def test_what_people_wrote_cannot_steer_the_terminal(gateway: Gateway) -> None:
    gateway.open_session("talk", title=STEERING, chat_id=STEERING)
    gateway.finalize_turn("talk", [user(STEERING)])
    for command in (["context", "talk"], ["sessions", "list"], ["sessions", "show", "talk"]):
        shown = invoke(*command).out
        assert ESCAPE not in shown
        assert "\x07" not in shown
        assert "[bold]there[/bold]" in shown


def test_undo_takes_compactions_back_until_there_is_none(gateway: Gateway, url: str) -> None:
    session = compacted(gateway, url)
    before = gateway.load_context(session).messages
    document = invoke("undo", session, "--json").document
    assert document["undone"]["kind"] == "micro"
    assert document["undone"]["rows_restored"] >= 1
    assert gateway.load_context(session).messages != before
    while "came back" in invoke("undo", session).out:
        pass
    assert invoke("undo", session, "--json").document == {"session": session, "undone": None}
    assert len(gateway.load_context(session).messages) == MESSAGES


@pytest.mark.parametrize(
    "command", [["sessions", "show"], ["context"], ["undo"], ["explain"], ["guards", "list"],
                ["guards", "clear"], ["signals"]],
)  # fmt: skip
def test_an_unknown_session_is_reported_in_one_line(gateway: Gateway, command: list[str]) -> None:
    gateway.open_session("somebody")
    ended = invoke(*command, "nobody", "--json")
    assert outline(ended) == (Exit.NOT_FOUND, "", 1)
    assert "'nobody'" in ended.err


@pytest.mark.parametrize(
    "command",
    [["sessions", "list"], ["sessions", "show", "x"], ["context", "x"], ["undo", "x"],
     ["db", "current"], ["explain", "x"], ["compact", "x", "--yes"], ["guards", "list"],
     ["guards", "clear", "x"], ["signals"]],
)  # fmt: skip
def test_a_mistyped_database_is_no_new_database(
    command: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "folder" / "mistyped.db"
    monkeypatch.setenv("DATABASE_URL", f"sqlite:///{file}")
    ended = invoke(*command)
    assert outline(ended) == (Exit.UNAVAILABLE, "", 1)
    assert f"no such file: sqlite:///{file}" in ended.err
    assert not file.parent.exists()


def test_on_a_fresh_machine_the_first_database_is_still_to_come(tmp_path: Path) -> None:
    ended = execute("sessions", "list", home=tmp_path)
    assert outline(ended) == (Exit.UNAVAILABLE, "", 1)
    assert "no database yet at" in ended.err
    assert "`afterturn up` creates it" in ended.err
    assert list(tmp_path.rglob("*")) == []


def test_a_new_database_is_made_where_one_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "folder" / "new.db"
    monkeypatch.setenv("DATABASE_URL", f"sqlite:///{file}")
    assert invoke("db", "upgrade").code == Exit.OK
    assert file.exists()


def test_passes_that_were_taken_back_and_failures_are_shown(gateway: Gateway, url: str) -> None:
    session = compacted(gateway, url)
    gateway.undo(session)
    database = open_database(url)
    with database.write() as connection:
        record = sessions.find(connection, owner="local", session_id=session)
        assert record is not None
        key = record.key
        guards.put(connection, database, key, GuardName.ENDPOINT_FAILURES, count=3)
        jobs.enqueue(
            connection, database, key, kind=jobs.JobKind.TURN, queue="turns", trigger="turn"
        )
        connection.exec_driver_sql("UPDATE jobs SET run_at = run_at + 601000 WHERE state = 'due'")
    database.close()
    shown = invoke("sessions", "show", session)
    assert ", undone" in shown.out
    assert "Failed tries in a row: 3." in shown.out
    assert "in 10 min" in shown.out
    document = invoke("sessions", "show", session, "--json").document
    assert document["failed_tries_in_a_row"] == 3
    assert [attempt["undone"] for attempt in document["attempts"]].count(True) == 1


def test_a_summary_says_up_to_where_it_covers(gateway: Gateway, url: str) -> None:
    session = compacted(gateway, url)
    summary = invoke("sessions", "show", session, "--json").document["rolling_summary"]
    first, last = summary["first_position"], summary["last_position"]
    expected = f"covers up to position {last}; last pass {first} to {last}"
    assert expected in invoke("sessions", "show", session).out


def test_tables_in_a_pipe_have_no_trailing_blanks(gateway: Gateway, url: str) -> None:
    session = compacted(gateway, url)
    for command in (["sessions", "list"], ["sessions", "show", session], ["doctor"]):
        for line in invoke(*command).out.splitlines():
            assert line == line.rstrip()


def test_ids_of_sessions_stay_on_one_line(gateway: Gateway, url: str, tmp_path: Path) -> None:
    name = "20261130_101112_deadbeef_telegram_group"
    gateway.open_session(name, source="telegram", title="A very long title " * 9)
    for width in ("80", "120"):
        environment = {"DATABASE_URL": url, "COLUMNS": width}
        assert name in execute("sessions", "list", home=tmp_path, env=environment).out


# --- configuration and tables ----------------------------------------------------------------


def test_a_broken_configuration_names_its_key_for_people_and_programs(
    url: str, tmp_path: Path
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("compression:\n  treshold: 0.5\n  protect_last_n: 5000\n")
    for command in (["config", "check", "--file", str(file)], ["--config", str(file), "undo", "x"]):
        ended = invoke(*command)
        assert ended.code == Exit.CONFIGURATION
        assert ended.out == ""
        assert "compression.treshold" in ended.err
        assert "nearest known key: compression.threshold" in ended.err
        assert "1 to 1000" in ended.err
    ended = invoke("config", "check", "--file", str(file), "--json")
    assert ended.code == Exit.CONFIGURATION
    keys = [problem["key"] for problem in ended.document["problems"]]
    assert keys == ["compression.treshold", "compression.protect_last_n"]


def test_a_good_configuration_is_reported_without_its_secrets(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://ann:hunter2@db/afterturn?password=hunter2")
    monkeypatch.setenv("BROKER_URL", "redis://:hunter2@broker:6379/0")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-hunter2")
    file = tmp_path / "config.yaml"
    file.write_text(
        "auxiliary:\n  compression:\n    base_url: http://u:hunter2@model/v1\n    model: small\n"
    )
    people = invoke("--config", str(file), "config", "check")
    programs = invoke("--config", str(file), "config", "check", "--json")
    assert (people.code, programs.code) == (Exit.OK, Exit.OK)
    assert programs.document["summarisers"] == ["small"]
    for shown in (people.out, programs.out):
        assert "hunter2" not in shown
        assert "broker:6379" in shown


@pytest.mark.parametrize(
    ("broker", "expected"),
    [
        ("rubbish://:hunter2@h", "scheme 'rubbish' is no transport that Celery knows"),
        ("redis://:hunter2@h:notaport/0", "the port cannot be read"),
    ],
)
@pytest.mark.parametrize("command", [["config", "check"], ["worker"], ["up"]])
def test_a_wrong_broker_is_a_wrong_configuration(
    url: str, broker: str, expected: str, command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROKER_URL", broker)
    ended = invoke(*command)
    assert (ended.code, ended.out) == (Exit.CONFIGURATION, "")
    assert ended.err.startswith("afterturn: 1 problem in the environment:\n  BROKER_URL")
    assert expected in ended.err
    assert "hunter2" not in ended.err


@pytest.mark.parametrize("command", ["worker", "up"])
def test_a_transport_without_its_library_is_reported_with_what_to_install(
    url: str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROKER_URL", "librabbitmq://guest:hunter2@h")
    ended = invoke(command)
    assert outline(ended) == (Exit.CONFIGURATION, "", 1)
    assert "transport 'librabbitmq'" in ended.err
    assert "kombu[librabbitmq]" in ended.err
    assert "hunter2" not in ended.err


def test_a_provider_without_its_key_is_a_wrong_configuration(url: str, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("auxiliary:\n  compression:\n    provider: openai\n    model: small\n")
    ended = invoke("config", "check", "--file", str(file))
    assert ended.code == Exit.CONFIGURATION
    assert "OPENAI_API_KEY" in ended.err


def test_tables_are_made_and_listed(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", database_url)
    if database_url.startswith("sqlite:///"):
        Path(database_url.removeprefix("sqlite:///")).touch()
    before = invoke("db", "current", "--json").document
    assert before["revision"] is None
    assert before["up_to_date"] is False
    assert "afterturn db upgrade" in invoke("db", "current").out
    made = invoke("db", "upgrade", "--json").document
    assert made["before"] is None
    assert made["revision"] == before["needed"]
    assert "already" in invoke("db", "upgrade").out
    assert invoke("db", "current", "--json").document["up_to_date"] is True


def test_a_server_whose_tables_are_missing_asks_for_the_upgrade(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", postgres_url)
    ended = invoke("sessions", "list")
    assert ended.code == Exit.UNAVAILABLE
    assert "afterturn db upgrade" in ended.err
    checks = {check["check"]: check for check in invoke("doctor", "--json").document["checks"]}
    assert checks["tables"]["status"] == "fail"
    assert "db upgrade" in checks["tables"]["advice"]


# --- as processes ----------------------------------------------------------------------------


def test_in_a_pipe_there_is_no_colour_and_no_notice(url: str, tmp_path: Path) -> None:
    with gateway_on(url) as gateway:
        gateway.open_session("talk")
    shown = execute("sessions", "show", "talk", home=tmp_path, env={"DATABASE_URL": url})
    assert (shown.code, shown.err) == (Exit.OK, "")
    assert ESCAPE not in shown.out


def test_errors_of_a_process_are_short_and_hold_no_traceback(tmp_path: Path) -> None:
    ended = execute(
        "sessions",
        "list",
        "--json",
        home=tmp_path,
        env={"DATABASE_URL": "postgresql://ann:hunter2@127.0.0.1:1/x"},
    )
    assert outline(ended) == (Exit.UNAVAILABLE, "", 1)
    assert "127.0.0.1:1" in ended.err
    assert "hunter2" not in ended.err
    assert "://***@127.0.0.1:1/x" in ended.err
    assert "stored" not in ended.err


def test_on_a_terminal_there_is_colour_unless_it_is_not_wanted(tmp_path: Path) -> None:
    def shown(**more: str) -> str:
        ours, theirs = pty.openpty()
        environment = {**program_environment(tmp_path), "TERM": "xterm-256color", **more}
        with subprocess.Popen(
            [sys.executable, "-m", "afterturn", "config", "check"],
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=subprocess.DEVNULL,
            env=environment,
            cwd=tmp_path,
        ):
            os.close(theirs)
            return read_all(ours)

    assert f"{ESCAPE}[32m" in shown()
    assert ESCAPE not in shown(NO_COLOR="1")


def test_a_reader_that_has_seen_enough_ends_the_program_quietly(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run(
        [sys.executable, "-m", "afterturn", "config", "show-example"],
        stdout=writing,
        stderr=subprocess.PIPE,
        env=program_environment(tmp_path),
        cwd=tmp_path,
        check=False,
        timeout=60,
    )
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (0, b"")


# --- doctor ----------------------------------------------------------------------------------


def test_the_doctor_is_content_with_a_fresh_machine_and_changes_nothing(tmp_path: Path) -> None:
    ended = execute("doctor", "--json", home=tmp_path)
    assert (ended.code, ended.err) == (Exit.OK, "")
    assert ended.document["ok"] is True
    assert {check["check"]: check["status"] for check in ended.document["checks"]} == {
        "configuration": "ok",
        "database": "ok",
        "broker": "ok",
        "summariser": "ok",
        "packages": "ok",
        "versions": "ok",
    }
    assert list(tmp_path.rglob("*")) == []


def test_the_doctor_reports_which_checks_failed(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("BROKER_URL", "redis://:hunter2@127.0.0.1:1/0")
    ended = invoke("doctor")
    assert ended.code == Exit.FAILED
    assert "1 check failed" in ended.out
    assert "hunter2" not in ended.out
    document = invoke("doctor", "--json").document
    assert document["ok"] is False
    assert [c["check"] for c in document["checks"] if c["status"] == "fail"] == ["broker"]


# --- up and worker ---------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_up_works_for_gateways_elsewhere_until_it_is_asked_to_stop(
    ending: signal.Signals, url: str, gateway: Gateway, processes: Processes
) -> None:
    child = started(processes, "up", DATABASE_URL=url)
    child.wait_for("Ready.")
    assert "built-in local one" in child.output
    gateway.open_session("talk")
    gateway.finalize_turn("talk", [user("Hi."), assistant("Hello.")])
    wait_until(lambda: no_job_is_open(url), "the turn is worked")
    child.send(ending)
    assert child.wait(bound(20)) == 0
    assert child.output.rstrip().endswith("Stopped.")
    assert "Traceback" not in child.output
    assert ESCAPE not in child.output


def test_a_second_signal_ends_up_although_a_model_is_being_waited_for(
    url: str, gateway: Gateway, processes: Processes, tmp_path: Path
) -> None:
    with ModelServer() as server:
        server.always(Silence())
        file = tmp_path / "config.yaml"
        file.write_text(
            "compression:\n  micro_compact_min_tokens: 0\n"
            "auxiliary:\n  compression:\n"
            f"    base_url: {server.base_url}\n    model: slow\n"
        )
        child = started(processes, "--config", str(file), "up", DATABASE_URL=url)
        child.wait_for("Ready.")
        assert f"slow at {server.base_url}" in child.output
        talk(gateway)
        server.wait_for_requests(1)
        child.send(signal.SIGINT)
        child.wait_for("Stopping")
        assert child.running
        child.send(signal.SIGINT)
        assert child.wait(bound(20)) == Exit.INTERRUPTED


def test_a_worker_without_broker_points_to_up(url: str) -> None:
    ended = invoke("worker")
    assert outline(ended) == (Exit.CONFIGURATION, "", 1)
    assert "BROKER_URL" in ended.err
    assert "`afterturn up`" in ended.err


def test_a_worker_takes_jobs_from_the_broker_and_is_seen_by_the_doctor(
    url: str, redis_url: str, processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROKER_URL", redis_url)
    child = started(
        processes, "worker", "--queues", "turns,micro", "--concurrency", "2", "--events",
        DATABASE_URL=url, BROKER_URL=redis_url,
    )  # fmt: skip
    child.wait_for("ready.")
    with gateway_on(url, broker_url=redis_url) as gateway:
        gateway.open_session("talk")
        gateway.finalize_turn("talk", [user("Hi."), assistant("Hello.")])
        wait_until(lambda: no_job_is_open(url), "the turn is worked")
    workers = {c["check"]: c for c in invoke("doctor", "--json").document["checks"]}["workers"]
    assert workers["status"] == "warn"
    assert "afterturn-" in workers["detail"]
    assert "nobody works batch, prune, maintenance" in workers["detail"]
    child.terminate()
    assert child.wait(bound(20)) == 0
    assert "turns.finalize" in child.output
    assert "Traceback" not in child.output


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_two_workers_of_a_host_have_names_of_their_own_and_end_well_when_asked(
    ending: signal.Signals, url: str, redis_url: str, processes: Processes
) -> None:
    children = [
        started(processes, "worker", DATABASE_URL=url, BROKER_URL=redis_url) for _ in range(2)
    ]
    for child in children:
        child.wait_for("ready.")
    names = {name for child in children for name in re.findall(r"afterturn-\w+@", child.output)}
    assert len(names) == 2
    for child in children:
        child.send(ending)
    assert [child.wait(bound(20)) for child in children] == [Exit.OK, Exit.OK]


def test_a_worker_whose_database_cannot_be_used_ends_at_once(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", postgres_url)
    monkeypatch.setenv("BROKER_URL", "redis://127.0.0.1:1/0")
    ended = invoke("worker")
    assert ended.code == Exit.UNAVAILABLE
    assert "afterturn db upgrade" in ended.err
    assert "Traceback" not in ended.err


# --- what the tests share --------------------------------------------------------------------


def started(processes: Processes, *arguments: str, **environment: str) -> Child:
    return processes.python("-m", "afterturn", *arguments, env=environment)


def no_job_is_open(url: str) -> bool:
    database = open_database(url)
    try:
        with database.read() as connection:
            return not job_records.open_jobs(connection)
    finally:
        database.close()


TURNS, MESSAGES = 8, 32


def talk(gateway: Gateway) -> str:
    """Store a session that has much to absorb and is below its threshold still."""
    session = gateway.open_session("long", context_window=4000)
    for number in range(TURNS):
        gateway.finalize_turn(session, turn(number))
    return session.id


def compacted(gateway: Gateway, url: str) -> str:
    """Return the same session, after its passes."""
    session = talk(gateway)
    with playing(url, micro_compact_min_tokens=0) as play:
        play.work_off()
    return session


def read_all(descriptor: int) -> str:
    """Read a terminal until nobody writes to it any more."""
    read: list[bytes] = []
    try:
        while chunk := os.read(descriptor, 65536):
            read.append(chunk)
    except OSError:
        pass  # How Linux reports that the other end is closed.
    finally:
        os.close(descriptor)
    return b"".join(read).decode()
