"""Operators see what holds compaction back, and clear it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from afterturn.exits import Exit
from producers import Gateway
from storage import guards
from storage.conversations import sessions
from storage.guards import GuardName
from tests.support.model.behaviours import Status
from tests.support.model.server import ModelServer
from tests.support.programs.command_line import invoke
from tests.support.programs.person import Person, hold, stored
from tests.support.sessions.conversations import turn
from tests.support.sessions.gateways import gateway_on
from workers.summariser.gate import SharedGate
from workers.summariser.rate_limits import Limits


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
        opened.open_session("hers", owner="ann")
        yield opened


def held(url: str, session_id: str = "desk") -> set[GuardName]:
    with stored(url) as database, database.read() as connection:
        record = sessions.find(connection, owner="local", session_id=session_id)
        assert record is not None
        return set(guards.read_all(connection, database, record.key))


def listed(*arguments: str) -> list[tuple[str, str]]:
    document = invoke("guards", "list", *arguments, "--json").document
    return [(one["session"], one["name"]) for one in document["guards"]]


def test_without_suppression_that_is_said(gateway: Gateway) -> None:
    ended = invoke("guards", "list")
    assert ended.code == Exit.OK
    assert ended.out == "No guard suppresses passes of any session.\nNo endpoint was asked yet.\n"
    assert invoke("guards", "list", "--json").document == {"guards": [], "endpoints": []}
    assert "No guard suppresses passes of the session." in invoke("guards", "list", "desk").out


def test_cooldowns_locks_no_ops_and_failures_are_listed_with_their_ends(
    url: str, gateway: Gateway
) -> None:
    hold(url, "desk", GuardName.COOLDOWN, detail="rate_limited", hold_ms=600_000)
    hold(url, "desk", GuardName.POOR_PASSES, count=2, hold_ms=300_000)
    hold(
        url, "other", GuardName.NOTHING_TO_COMPACT, count=9, subject=1, detail="the middle is empty"
    )
    hold(url, "other", GuardName.BATCH_FAILURES, count=2)
    shown = invoke("guards", "list").out
    for expected in (
        "automatic passes rest after a failure (rate_limited)",
        "the last 2 passes hardly saved anything: automatic ones are locked",
        "nothing to compact (the middle is empty)",
        "2 batch jobs in a row failed with the window nearly full",
        "for 10 min",
        "for 5 min",
        "until the session changes",
    ):
        assert expected in shown
    document = invoke("guards", "list", "desk", "--json").document
    [cooldown] = [one for one in document["guards"] if one["name"] == "cooldown"]
    assert 590 < cooldown["left_seconds"] <= 600
    assert cooldown["until"].endswith("+00:00")
    assert (cooldown["owner"], cooldown["detail"]) == ("local", "rate_limited")


def test_what_is_over_or_only_remembered_is_seen_at_its_session_alone(
    url: str, gateway: Gateway
) -> None:
    hold(url, "desk", GuardName.COOLDOWN, hold_ms=0)
    hold(url, "desk", GuardName.INPUT_ROOM, subject=40_000)
    hold(url, "other", GuardName.COOLDOWN, hold_ms=60_000)
    assert listed() == [("other", "cooldown")]
    assert listed("desk") == [("desk", "cooldown"), ("desk", "input_room")]
    shown = invoke("guards", "list", "desk").out
    assert "over" in shown
    assert "one request holds 40,000 characters" in shown


def test_sessions_of_other_owners_are_listed_only_when_asked_for(
    url: str, gateway: Gateway
) -> None:
    with stored(url) as database, database.write() as connection:
        hers = sessions.find(connection, owner="ann", session_id="hers")
        assert hers is not None
        guards.put(connection, database, hers.key, GuardName.COOLDOWN, hold_ms=60_000)
    assert listed() == []
    assert listed("--all-owners") == [("hers", "cooldown")]
    assert "ann" in invoke("guards", "list", "--all-owners").out
    assert invoke("guards", "list", "hers").code == Exit.NOT_FOUND


def test_clearing_a_session_takes_all_of_it_and_says_what(url: str, gateway: Gateway) -> None:
    hold(url, "desk", GuardName.COOLDOWN, detail="auth", hold_ms=600_000)
    hold(url, "desk", GuardName.BATCH_FAILURES, count=2)
    hold(url, "other", GuardName.COOLDOWN, hold_ms=600_000)
    ended = invoke("guards", "clear", "desk")
    assert ended.code == Exit.OK
    assert "Cleared cooldown (automatic passes rest after a failure (auth))." in ended.out
    assert "Cleared batch_failures (2 batch jobs in a row failed" in ended.out
    assert (held(url), held(url, "other")) == (set(), {GuardName.COOLDOWN})
    assert invoke("guards", "clear", "desk").out == "There was nothing to clear.\n"


def test_one_guard_is_cleared_by_its_name(url: str, gateway: Gateway) -> None:
    hold(url, "desk", GuardName.COOLDOWN, hold_ms=600_000)
    hold(url, "desk", GuardName.POOR_PASSES, count=2)
    hold(url, "desk", GuardName.UNDONE, subject=0)
    document = invoke(
        "guards", "clear", "desk", "--name", "cooldown", "--name", "undone", "--json"
    ).document
    assert sorted(document["cleared"]) == ["cooldown", "undone"]
    assert held(url) == {GuardName.POOR_PASSES}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), "--all-endpoints"),
        (("--name", "cooldown"), "SESSION"),
        (("desk", "--name", "cooldwn"), "did you mean cooldown?"),
        (("desk", "--name", "x"), ", ".join(GuardName)),
        (("--endpoint", "m"), "none is known"),
    ],
)
def test_what_cannot_be_cleared_is_reported_with_what_can(
    gateway: Gateway, arguments: tuple[str, ...], expected: str
) -> None:
    ended = invoke("guards", "clear", *arguments)
    assert (ended.code, ended.out) == (Exit.USAGE, "")
    assert expected in ended.err
    assert len(ended.err.splitlines()) <= 2


def test_clearing_a_session_that_is_not_there_is_reported(gateway: Gateway) -> None:
    assert invoke("guards", "clear", "nobody").code == Exit.NOT_FOUND


def test_a_breaker_is_seen_closed_by_hand_and_the_model_asked_at_once(
    url: str, gateway: Gateway, tmp_path: Path
) -> None:
    for number in range(16):
        gateway.finalize_turn("desk", turn(number))
    with ModelServer() as server:
        server.always(Status(401))
        person, route = Person(tmp_path, server), f"small at 127.0.0.1:{server.port}"
        for _ in range(3):
            person.types("compact", "desk", "--yes")
            person.types("undo", "desk")
        [state] = person.types("guards", "list", "--json").document["endpoints"]
        assert (state["name"], state["is_open"], state["failures"]) == (route, True, 3)
        shown = person.types("guards", "list").out
        assert route in shown
        assert "open for" in shown
        refused = person.types("guards", "clear", "--endpoint", "small")
        assert refused.code == Exit.USAGE
        assert f"known are {route}" in refused.err
        closed = person.types("guards", "clear", "--endpoint", route)
        assert closed.out == f"Closed the breaker of {route}: it may be asked at once.\n"
        assert person.types("guards", "clear", "--all-endpoints").out == "No breaker was open.\n"
        before = len(server.requests)
        person.types("compact", "desk", "--yes")
        assert len(server.requests) == before + 1


def test_a_request_for_whose_end_everybody_waits_is_seen_and_others_let_ask(
    url: str, gateway: Gateway, tmp_path: Path
) -> None:
    with ModelServer() as server:
        person, route = Person(tmp_path, server), f"small at 127.0.0.1:{server.port}"
        with stored(url) as database:
            SharedGate(database).admit(route, Limits(), tokens=100, longest_seconds=600.0)
        assert "closed, one request is out" in person.types("guards", "list").out
        shown = person.types("explain", "desk").out
        assert "100 tokens in this minute; all others wait for the end of one request." in shown
        closed = person.types("guards", "clear", "--endpoint", route)
        assert closed.out == f"Closed the breaker of {route}: it may be asked at once.\n"
        assert "is out" not in person.types("guards", "list").out
        assert "all others wait" not in person.types("explain", "desk").out


def test_a_cleared_session_is_compacted_again(url: str, gateway: Gateway, tmp_path: Path) -> None:
    person = Person(tmp_path)
    hold(url, "desk", GuardName.COOLDOWN, hold_ms=600_000)

    def suppression(trigger: str) -> Any:
        document = person.types("explain", "desk", "--json").document
        return {one["trigger"]: one["suppressed_by"] for one in document["triggers"]}[trigger]

    assert suppression("preflight")["guard"] == "cooldown"
    person.types("guards", "clear", "desk")
    assert suppression("preflight") is None
