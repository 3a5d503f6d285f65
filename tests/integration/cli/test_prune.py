"""A person has old tool output shortened, looks at originals, and takes it back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from afterturn.exits import Exit
from producers import Gateway
from storage.jobs import queue_states
from tests.support.programs.command_line import Ended
from tests.support.programs.person import Person, stored
from tests.support.sessions.gateways import gateway_on
from tests.support.sessions.stored_session import dump
from tests.support.sessions.tool_talk import SMALL, log, log_turn

SMALL_TALK: dict[str, Any] = {**SMALL, "proactive_prune_tokens": 0}


@pytest.fixture
def url(sqlite_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    monkeypatch.setenv("DATABASE_URL", sqlite_url)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configuration"))
    return sqlite_url


@pytest.fixture
def gateway(url: str) -> Iterator[Gateway]:
    with gateway_on(url) as opened:
        opened.open_session("runs", model="m")
        for number in range(12):
            opened.finalize_turn("runs", log_turn(number))
        yield opened


@pytest.fixture
def person(gateway: Gateway, tmp_path: Path) -> Person:
    return Person(tmp_path, **SMALL_TALK)


def kept(url: str) -> Any:
    """Everything that is stored."""
    with stored(url) as database:
        return dump(database)


def pruned(person: Person, *options: str) -> Ended:
    return person.types("prune", "runs", *options)


def test_a_preview_shows_what_would_change_and_what_it_saves_and_changes_nothing(
    person: Person, url: str
) -> None:
    before = kept(url)
    seen = pruned(person, "--preview")
    assert (seen.code, seen.err) == (Exit.OK, "")
    assert seen.out.count("output left out") == 7
    assert "Saving: 6,770 tokens, 52.6 % of the view: 12,870 → 6,100 tokens." in seen.out
    document = pruned(person, "--preview", "--json").document
    assert document["result"] is None
    assert document["preview"]["saved_tokens"] == 6_770
    assert [one["position"] for one in document["preview"]["messages"]] == list(range(6, 34, 4))
    assert document["preview"]["messages"][0] == {
        "position": 6,
        "tools": ["bash"],
        "rules": ["result"],
        "tokens_before": 1004,
        "tokens_after": 36,
        "same_as": None,
    }
    assert kept(url) == before


def test_a_person_prunes_looks_at_an_original_and_takes_it_back(
    person: Person, gateway: Gateway
) -> None:
    whole = gateway.load_context("runs")
    done = pruned(person, "--yes")
    assert (done.code, done.err) == (Exit.OK, "")
    assert "Shortened: 7 messages, 12,870 → 6,100 tokens." in done.out
    shown = person.types("context", "runs").out
    assert shown.count("⟦output left out: bash(") == 7
    (handle,) = {word.rstrip("⟧") for word in shown.split() if word.startswith("out-1-6")}
    assert person.types("output", handle).out == log(1) + "\n"
    document = person.types("output", handle, "--json").document
    assert (document["text"], document["pruned"], document["session"]) == (log(1), True, "runs")
    explained = person.types("explain", "runs")
    assert "Shown short: 7 messages with old tool output, 6,770 tokens left out" in explained.out
    assert person.types("explain", "runs", "--json").document["shown_short"]["messages"] == 7
    back = pruned(person, "--undo")
    assert "7 messages shown in full again: 6,770 tokens came back." in back.out
    assert gateway.load_context("runs").messages == whole.messages
    assert pruned(person, "--undo", "--json").document["restored"] == {"messages": 0, "tokens": 0}


def test_a_person_is_past_the_main_switch_the_mark_and_the_least_that_is_freed(
    person: Person,
) -> None:
    person.document["compression"] |= {
        "enabled": False,
        "proactive_prune_min_reclaim_tokens": 1_000_000,
    }
    person.save()
    seen = pruned(person, "--preview")
    assert "automatic passes free 1,000,000 tokens or leave the view alone" in seen.out
    document = pruned(person, "--yes", "--json").document
    assert document["result"] == {
        "messages": 7,
        "tokens_before": 12_870,
        "tokens_after": 6_100,
    }
    again = pruned(person, "--yes", "--json").document
    assert again["nothing_to_prune"] == ("no old tool output is left that a note could replace")
    assert pruned(person, "--yes").out.startswith("Nothing to shorten: no old tool output")


def test_what_would_be_freed_is_explained(person: Person) -> None:
    assert "A pruning pass would free 6,770 tokens of 7 messages." in (
        person.types("explain", "runs").out
    )
    document = person.types("explain", "runs", "--json").document
    assert document["pruning_would_free_tokens"] == 6_770
    assert document["pruning_has_nothing_to_do"] is None
    (trigger,) = (one for one in document["triggers"] if one["trigger"] == "prune")
    assert (trigger["due"], trigger["size"], trigger["limit"]) == (False, 12_870, 20_000)


def test_without_a_terminal_it_does_not_act_unasked(person: Person, url: str) -> None:
    before = kept(url)
    for options in ((), ("--json",)):
        refused = pruned(person, *options)
        assert refused.code == Exit.USAGE
        assert "add --yes" in refused.err
    assert kept(url) == before


def test_a_queue_that_is_paused_is_reported(person: Person, url: str) -> None:
    with stored(url) as database, database.write() as connection:
        queue_states.pause(connection, database, ["prune"], reason="")
    refused = pruned(person, "--yes")
    assert refused.code == Exit.FAILED
    assert "queue prune is paused" in refused.err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("prune", "nobody", "--preview"), Exit.NOT_FOUND, "no session 'nobody'"),
        (("prune", "nobody", "--undo"), Exit.NOT_FOUND, "no session 'nobody'"),
        (("output", "out-1-4000"), Exit.NOT_FOUND, "no output 'out-1-4000'"),
        (("output", "page 3"), Exit.USAGE, "is not a handle of tool output"),
        (("--owner", "another", "output", "out-1-6"), Exit.NOT_FOUND, "owner 'another' has no"),
    ],
)
def test_what_is_not_there_is_reported(
    person: Person, words: tuple[str, ...], code: Exit, said: str
) -> None:
    ended = person.types(*words)
    assert (ended.code, ended.out) == (code, "")
    assert said in ended.err
