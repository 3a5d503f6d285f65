"""What kinds, outcomes, triggers, guards and signals are called for people."""

from __future__ import annotations

import re
from typing import Any

import pytest

from afterturn.render.sentences import (
    SUPPRESSING,
    breaker_words,
    guard_end,
    guard_sentence,
    signal_sentence,
)
from afterturn.render.terms import attempt_name, outcome_name, summary_name, trigger_name
from afterturn.render.words import clock, count, until
from storage.conversations.summaries import SummaryKind
from storage.endpoints import EndpointState
from storage.guards import GuardName, GuardRecord
from storage.outcomes import Outcome
from storage.signals import Signal, SignalKind
from workers.policy.triggers import Trigger
from workers.turn.due import MICRO

NOON = 1_796_040_000_000
FIGURES = {
    "messages_before": 1335,
    "messages_after": 249,
    "tokens_before": 130_516,
    "tokens_after": 29_152,
}
CHANGE = "1,335 → 249 messages, 130,516 → 29,152 tokens"


def sentence(kind: SignalKind, **facts: Any) -> str:
    return signal_sentence(Signal(1, "o", "s", kind, False, facts, NOON))


def test_every_kind_of_summary_and_every_trigger_has_a_name_of_its_own() -> None:
    kinds = [summary_name(kind) for kind in SummaryKind]
    triggers = [trigger_name(trigger) for trigger in (*Trigger, MICRO)]
    assert len(set(kinds)) == len(kinds)
    assert len(set(triggers)) == len(triggers)
    assert not any("_" in name for name in (*kinds, *triggers))


def test_every_outcome_has_a_name_of_its_own() -> None:
    names = [outcome_name(outcome) for outcome in Outcome]
    assert len(set(names)) == len(names)
    assert not any("_" in name for name in names)


def test_what_a_newer_version_wrote_is_called_as_it_is() -> None:
    assert outcome_name("folded_twice") == "folded_twice"
    assert trigger_name("full_moon") == "full_moon"


def test_a_try_of_a_batch_pass_says_what_asked_for_it() -> None:
    assert attempt_name("batch", "manual") == "batch, a person"
    assert attempt_name("micro", "micro") == "micro"


@pytest.mark.parametrize("name", GuardName)
def test_every_guard_says_something_and_when_it_ends(name: GuardName) -> None:
    guard = GuardRecord(2, 12, detail="why")
    assert not re.search(r"None|\b_|_\b", guard_sentence(name, guard))
    assert guard_end(name, guard).startswith("until ")


@pytest.mark.parametrize(
    ("name", "guard", "says"),
    [
        (
            GuardName.COOLDOWN,
            GuardRecord(0, 1, detail="rate_limited"),
            "automatic passes rest after a failure (rate_limited)",
        ),
        (
            GuardName.POOR_PASSES,
            GuardRecord(1, None),
            "the last pass hardly saved anything; another one locks automatic ones",
        ),
        (
            GuardName.POOR_PASSES,
            GuardRecord(2, None),
            "the last 2 passes hardly saved anything: automatic ones are locked",
        ),
        (GuardName.NOTHING_TO_COMPACT, GuardRecord(9, 1), "nothing to compact"),
        (
            GuardName.PASSES_OF_TURN,
            GuardRecord(1, 7, detail="no progress"),
            "1 pass asked for before requests after turn 7 (no progress)",
        ),
        (
            GuardName.MICRO_FAILURES,
            GuardRecord(2, 40),
            "the exchange at position 40 was answered badly 2 times",
        ),
    ],
)
def test_guards_speak_plainly(name: GuardName, guard: GuardRecord, says: str) -> None:
    assert guard_sentence(name, guard) == says


def test_a_guard_whose_time_is_over_says_so() -> None:
    over = GuardRecord(0, None, until_at=NOON)
    assert over.is_over
    assert guard_end(GuardName.COOLDOWN, over) == "over"
    holding = GuardRecord(0, None, until_at=NOON, left_ms=480_000)
    assert not holding.is_over
    assert re.fullmatch(r"until \d\d:\d\d, for 8 min", guard_end(GuardName.COOLDOWN, holding))
    assert not GuardRecord(3, None).is_over


def test_guards_that_only_remember_something_suppress_nothing() -> None:
    assert set(GuardName) - set(SUPPRESSING) == {
        GuardName.DEFRAG_MARK,
        GuardName.PASSES_OF_TURN,
        GuardName.ENGINE_REQUEST,
        GuardName.THREAD_SIGNAL,
        GuardName.INPUT_ROOM,
        GuardName.PRUNE_MARK,
    }


@pytest.mark.parametrize(
    ("kind", "facts", "says"),
    [
        (SignalKind.STARTED, {"trigger": "manual"}, "compaction begins (a person)"),
        (SignalKind.FINISHED, FIGURES, f"compacted: {CHANGE}"),
        (SignalKind.FAILED, {"error": "empty"}, "no summary could be had (empty)"),
        (SignalKind.PLACEHOLDER, FIGURES, f"a placeholder stands in: {CHANGE}"),
        (
            SignalKind.PLACEHOLDER_REPLACED,
            FIGURES,
            f"a summary took the placeholder's place: {CHANGE}",
        ),
        (
            SignalKind.STUCK,
            {**FIGURES, "sentence": "Start a new one."},
            f"cannot be made smaller: {CHANGE}. Start a new one",
        ),
        (
            SignalKind.EXHAUSTED,
            {"failures": 3},
            "3 batch jobs in a row failed, with the window nearly full",
        ),
        (
            SignalKind.COMPACT_THREAD,
            {"turn": 4, "prompt_tokens": 90_000},
            "the gateway is to have Codex compact: 90,000 tokens in turn 4",
        ),
    ],
)
def test_signals_are_reported_with_their_figures(
    kind: SignalKind, facts: dict[str, Any], says: str
) -> None:
    assert sentence(kind, **facts) == says


@pytest.mark.parametrize("kind", SignalKind)
def test_a_signal_whose_facts_are_missing_is_reported_all_the_same(kind: SignalKind) -> None:
    assert sentence(kind)
    assert "None" not in sentence(kind)


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        ((False, 0, False), "closed"),
        ((False, 0, True), "closed, one request is out"),
        ((True, 30_000, False), "open for 30.0 s"),
        ((True, 0, False), "open, the next request probes"),
        ((True, 0, True), "open, a probe is out"),
    ],
)
def test_a_breaker_says_when_its_endpoint_is_asked_again(
    facts: tuple[bool, int, bool], says: str
) -> None:
    assert breaker_words(EndpointState("m at h", *facts, 3, "auth", 0, 0)) == says


def test_times_near_by_need_no_date() -> None:
    day = 86_400_000
    assert re.fullmatch(r"\d\d:\d\d", clock(NOON + 60_000, NOON))
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d", clock(NOON + day, NOON))
    assert re.fullmatch(r"until \d\d:\d\d, for 60\.0 s", until(NOON + 60_000, NOON))


def test_plurals_that_need_no_s_are_right() -> None:
    assert count(1, "pass", "passes") == "1 pass"
    assert count(2, "pass", "passes") == "2 passes"
