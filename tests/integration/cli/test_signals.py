"""The signals to gateways, at the command line."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from afterturn.exits import Exit
from producers import Gateway
from storage import signals
from storage.conversations import sessions
from storage.signals import SignalKind
from tests.support.observing.waiting import bound
from tests.support.programs.command_line import invoke
from tests.support.programs.person import stored
from tests.support.programs.processes import Processes
from tests.support.sessions.gateways import gateway_on

FIGURES = {"messages_before": 9, "messages_after": 4, "tokens_before": 900, "tokens_after": 400}


@pytest.fixture
def url(sqlite_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    monkeypatch.setenv("DATABASE_URL", sqlite_url)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configuration"))
    return sqlite_url


@pytest.fixture
def gateway(url: str) -> Iterator[Gateway]:
    with gateway_on(url) as opened:
        opened.open_session("desk")
        opened.open_session("other")
        yield opened


def emit(
    url: str, session_id: str, kind: SignalKind = SignalKind.FINISHED, *, quiet: bool = False
) -> int:
    with stored(url) as database, database.write() as connection:
        record = sessions.find(connection, owner="local", session_id=session_id)
        assert record is not None
        return signals.emit(connection, database, record.key, kind, FIGURES, quiet=quiet).id


def ids(*arguments: str) -> list[int]:
    return [one["id"] for one in invoke("signals", *arguments, "--json").document["signals"]]


def test_the_last_signals_are_listed_oldest_first(url: str, gateway: Gateway) -> None:
    sent = [emit(url, "desk") for _ in range(4)]
    emitted = emit(url, "other", SignalKind.RESET)
    assert ids() == [*sent, emitted]
    assert ids("--limit", "2") == [sent[-1], emitted]
    assert ids("desk", "--limit", "2") == sent[-2:]
    shown = invoke("signals")
    assert shown.err == ""
    lines = shown.out.splitlines()
    assert len(lines) == 5
    assert lines[0].endswith("desk  compacted: 9 → 4 messages, 900 → 400 tokens")
    assert "other  reset:" in lines[-1]


def test_pages_begin_behind_an_id(url: str, gateway: Gateway) -> None:
    sent = [emit(url, "desk") for _ in range(4)]
    assert ids("--after", str(sent[0]), "--limit", "2") == sent[1:3]
    document = invoke("signals", "--after", str(sent[-1]), "--json").document
    assert document == {"signals": [], "last": sent[-1]}


def test_what_users_need_not_see_is_left_out_when_asked(url: str, gateway: Gateway) -> None:
    quiet, loud = emit(url, "desk", quiet=True), emit(url, "desk")
    assert ids() == [quiet, loud]
    assert ids("--loud") == [loud]


def test_where_there_are_none_that_is_said(gateway: Gateway) -> None:
    ended = invoke("signals")
    assert (ended.code, ended.out, ended.err) == (Exit.OK, "", "There are no signals here.\n")
    assert invoke("signals", "nobody").code == Exit.NOT_FOUND


def test_new_signals_of_a_session_are_followed_until_ctrl_c(
    url: str, gateway: Gateway, processes: Processes
) -> None:
    first = emit(url, "desk")
    child = processes.python(
        "-m", "afterturn", "signals", "desk", "--follow", "--json", env={"DATABASE_URL": url}
    )
    child.wait_for(f'"id": {first},')
    emit(url, "other")
    second = emit(url, "desk", SignalKind.PLACEHOLDER)
    child.wait_for(f'"id": {second},')
    child.send(signal.SIGINT)
    assert child.wait(bound(60)) == Exit.OK
    printed = [json.loads(line) for line in child.output.splitlines() if line.startswith("{")]
    assert [one["id"] for one in printed] == [first, second]
    assert printed[1]["kind"] == "placeholder_in_use"
    assert "Traceback" not in child.output
