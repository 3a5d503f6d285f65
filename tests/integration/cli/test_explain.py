"""Why a session is, or is not, compacted now."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from afterturn.exits import Exit
from producers import Gateway
from storage.guards import GuardName
from tests.support.model.behaviours import Status
from tests.support.model.server import ModelServer
from tests.support.programs.command_line import execute
from tests.support.programs.person import Person, hold
from tests.support.sessions.conversations import turn
from tests.support.sessions.gateways import contents, gateway_on
from tests.support.sessions.play import playing

TURNS = 16


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
def person(tmp_path: Path) -> Person:
    return Person(tmp_path)


def talk(gateway: Gateway, *, turns: int = TURNS, **facts: Any) -> None:
    """Store turns of the airline desk in session `desk`."""
    gateway.open_session("desk", model="gpt-4o", **facts)
    for number in range(turns):
        gateway.finalize_turn("desk", turn(number))


def explained(person: Person) -> Any:
    ended = person.types("explain", "desk", "--json")
    assert (ended.code, ended.err) == (Exit.OK, "")
    return ended.document


def triggers(document: Any) -> dict[str, Any]:
    return {one["trigger"]: one for one in document["triggers"]}


def test_threshold_size_and_parts_of_a_session_are_shown(
    url: str, gateway: Gateway, person: Person
) -> None:
    talk(gateway)
    with playing(url) as play:
        before = contents(play.database)
        document, shown = explained(person), person.types("explain", "desk").out
        assert contents(play.database) == before
    assert document["threshold_tokens"] == 4000
    assert document["threshold_reason"].startswith("cap of 4,000 tokens (threshold_tokens)")
    parts = document["parts"]
    assert sum(part["tokens"] for part in parts.values()) == document["live_tokens"]
    assert parts["middle"]["first_position"] == 3
    assert document["estimated_occupancy"] == document["live_tokens"] / 4000
    for expected in (
        "4,000 tokens: cap of 4,000 tokens (threshold_tokens), below 0.75 of 128,000",
        "128,000 tokens assumed, none named",
        "not yet: no usage was reported",
        "3 to 54",
        "No summary is shown yet.",
        "Open: turn job",
        "Summariser: the built-in local one.",
        "after a response",
        "error of the provider",
    ):
        assert expected in shown


def test_reports_of_usage_calibrate_and_are_compared_with_the_threshold(
    url: str, gateway: Gateway, person: Person
) -> None:
    gateway.open_session("desk", context_window=200_000, reserved_output=8_000)
    for number in range(4):
        context = gateway.load_context("desk")
        usage = {"prompt_tokens": 3000 + 2 * context.tokens, "revision": context.revision}
        gateway.finalize_turn("desk", turn(number), usage=usage)
        with playing(url) as play:
            play.work_off()
    document = explained(person)
    assert document["calibration"]["samples"] == 4
    assert document["estimated_tokens"] > document["live_tokens"] + 3000
    assert document["reported_prompt_tokens"] == usage["prompt_tokens"]
    response = triggers(document)["after_response"]
    assert (response["size"], response["limit"]) == (usage["prompt_tokens"], 4000)
    assert response["due"] is True
    shown = person.types("explain", "desk").out
    assert "learned from 4 reports" in shown
    assert "200,000 tokens, 8,000 of them reserved for output" in shown


def test_what_is_due_and_what_suppresses_it_is_shown_until_when(
    url: str, gateway: Gateway, person: Person
) -> None:
    talk(gateway, context_window=6000)
    hold(url, "desk", GuardName.COOLDOWN, detail="rate_limited", hold_ms=600_000)
    document = explained(person)
    found = triggers(document)
    assert found["hygiene_tokens"]["due"] is True
    held = found["hygiene_tokens"]["suppressed_by"]
    assert held["guard"] == "cooldown"
    assert 590 < held["left_seconds"] <= 600
    assert held["until"] is not None
    assert found["hygiene_count"]["suppressed_by"] is None
    assert found["context_overflow"] == {
        "trigger": "context_overflow", "due": None, "size": None, "limit": None,
        "suppressed_by": None,
    }  # fmt: skip
    shown = person.types("explain", "desk").out
    assert "cooldown until" in shown
    assert "cooldown: automatic passes rest after a failure (rate_limited); until" in shown
    assert "for 10 min" in shown
    assert "`afterturn guards clear desk`" in shown


def test_a_placeholder_a_breaker_and_the_next_try_are_reported(
    url: str, gateway: Gateway, tmp_path: Path
) -> None:
    talk(gateway)
    with ModelServer() as server:
        server.always(Status(401))
        person = Person(tmp_path, server)
        for _ in range(3):
            assert person.types("compact", "desk", "--yes").code == Exit.FAILED
            person.types("undo", "desk")
        assert person.types("compact", "desk", "--yes", "--keep", "2").code == Exit.FAILED
        document, shown = explained(person), person.types("explain", "desk").out
        assert len(server.requests) == 3
        route = f"small at 127.0.0.1:{server.port}"
    assert [one["kind"] for one in document["summaries"]] == ["placeholder"]
    assert [one["trigger"] for one in document["open_jobs"] if one["kind"] == "batch"] == [
        "replace_placeholder"
    ]
    [model] = document["summarisers"]
    assert (model["route"], model["state"]["is_open"]) == (route, True)
    replacement = triggers(document)["replace_placeholder"]
    assert replacement["due"] is True
    assert replacement["suppressed_by"]["reason"] == "the summariser is down (auth)"
    assert "Shown: a placeholder, made without a model" in shown
    assert "replaced by a real summary as soon as the model answers" in shown
    assert "(placeholder to replace), due at" in shown
    assert f"Summariser: {route} is down after 3 failures (auth); nobody asks it until" in shown
    with playing(url) as play, play.database.write() as connection:
        connection.exec_driver_sql("UPDATE jobs SET state = 'done' WHERE kind = 'batch'")
    assert "The placeholder stays until a batch pass" in person.types("explain", "desk").out


def test_who_else_compacts_a_session_is_shown(url: str, gateway: Gateway, tmp_path: Path) -> None:
    gateway.open_session("desk", model="gpt-5.6", managed_by="openai", context_window=200_000)
    person = Person(tmp_path, codex_responses_native=True, threshold_tokens=100_000)
    document = explained(person)
    assert document["managed_by"] == "openai"
    assert document["server_threshold_tokens"] == 100_000 - 8192
    assert "OpenAI on its side at 91,808 tokens" in person.types("explain", "desk").out
    gateway.open_session("desk", managed_by="codex")
    assert all(one["suppressed_by"] for one in triggers(explained(person)).values())
    assert "a Codex app server, which owns the thread" in person.types("explain", "desk").out


def test_a_switch_that_is_off_suppresses_everything(
    url: str, gateway: Gateway, tmp_path: Path
) -> None:
    talk(gateway)
    document = explained(Person(tmp_path, enabled=False))
    reasons = {one["suppressed_by"]["reason"] for one in document["triggers"]}
    assert reasons == {"compaction is switched off (compression.enabled)"}


def test_a_missing_key_hides_nothing_but_the_chain(
    url: str, gateway: Gateway, person: Person
) -> None:
    talk(gateway)
    person.summarises_with(provider="openai", model="small")
    person.save()
    document = explained(person)
    assert document["summarisers"] == []
    assert "OPENAI_API_KEY" in document["summarisers_unknown"]
    assert "The summariser is not known here" in person.types("explain", "desk").out


def test_a_window_without_room_is_explained(url: str, gateway: Gateway, person: Person) -> None:
    talk(gateway)
    with playing(url) as play, play.database.write() as connection:
        # Gateways refuse it now; a row of before may still say so.
        connection.exec_driver_sql("UPDATE sessions SET context_window = 9, reserved_output = 9")
    document = explained(person)
    assert (document["threshold_tokens"], document["parts"]) == (None, None)
    shown = person.types("explain", "desk").out
    assert "leaves no room for a conversation" in shown


def test_an_unknown_session_is_reported(gateway: Gateway, person: Person) -> None:
    ended = person.types("explain", "nobody")
    assert (ended.code, ended.out) == (Exit.NOT_FOUND, "")


@pytest.mark.parametrize("width", ["80", "120"])
def test_an_explanation_fits_a_terminal(
    url: str, gateway: Gateway, tmp_path: Path, width: str
) -> None:
    talk(gateway)
    hold(url, "desk", GuardName.POOR_PASSES, count=2, hold_ms=300_000)
    environment = {"DATABASE_URL": url, "COLUMNS": width}
    shown = execute("explain", "desk", home=tmp_path, env=environment).out
    table = shown.partition("Automatic passes")[2].partition("poor_passes:")[0]
    assert max(map(len, table.splitlines())) <= int(width)
    for name in ("after a response", "hygiene, messages", "placeholder to replace"):
        [line] = [line for line in table.splitlines() if line.strip().startswith(name)]
        assert line.split()
