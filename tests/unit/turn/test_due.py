"""What a session's size enqueues, at the last number that does not and the first that does."""

from __future__ import annotations

from typing import Any

import pytest

from storage.guards import GuardName, GuardRecord
from tests.support.sessions.session_records import session_record
from workers.policy.calibration import Calibration
from workers.policy.triggers import Trigger
from workers.settings import CompressionSettings
from workers.turn.due import (
    Load,
    Restraints,
    batch_due,
    codex_is_asked,
    micro_may_run,
    present_turn,
    triggers_met,
)

OURS = 11
NATIVE: dict[str, Any] = {"codex_responses_native": True}
HERMES: dict[str, Any] = {"codex_app_server_auto": "hermes"}
BY_OPENAI: dict[str, Any] = {"managed_by": "openai", "model": "gpt-5.6"}
COOLS = {GuardName.COOLDOWN: GuardRecord(0, OURS, left_ms=1)}
POOR = {GuardName.POOR_PASSES: GuardRecord(2, None, left_ms=1)}


def load(prompt: int | None = None, *, additive: int = 0, **facts: Any) -> Load:
    calibration = Calibration(additive=additive, samples=1)
    return Load(session_record(**facts), calibration, prompt)


def under(guards: dict[GuardName, GuardRecord] | None = None, **settings: Any) -> Restraints:
    return Restraints(CompressionSettings(**settings), guards or {}, OURS)


def met(given: Load, **settings: Any) -> set[Trigger]:
    return set(triggers_met(given, CompressionSettings(**settings)))


@pytest.mark.parametrize(
    ("prompt", "due"),
    [(None, False), (0, False), (149_999, False), (150_000, True), (150_001, True)],
)
def test_a_report_from_the_threshold_on_triggers(prompt: int | None, due: bool) -> None:
    assert met(load(prompt)) == ({Trigger.AFTER_RESPONSE} if due else set())


@pytest.mark.parametrize(
    ("live", "additive", "due"),
    [(169_999, 0, False), (170_000, 0, True), (149_999, 20_000, False), (150_000, 20_000, True)],
)
def test_the_calibrated_estimate_from_the_hygiene_limit_on_triggers_without_any_report(
    live: int, additive: int, due: bool
) -> None:
    found = met(load(additive=additive, live_tokens=live))
    assert found == ({Trigger.HYGIENE_TOKENS} if due else set())


@pytest.mark.parametrize(("messages", "due"), [(4_999, False), (5_000, True), (5_001, True)])
def test_five_thousand_live_messages_trigger_whatever_they_hold(messages: int, due: bool) -> None:
    found = met(load(live_messages=messages, live_tokens=10))
    assert found == ({Trigger.HYGIENE_COUNT} if due else set())


@pytest.mark.parametrize(("messages", "due"), [(99, False), (100, True)])
def test_the_number_of_messages_is_a_setting(messages: int, due: bool) -> None:
    found = met(load(live_messages=messages), hygiene_hard_message_limit=100)
    assert found == ({Trigger.HYGIENE_COUNT} if due else set())


def test_the_worked_example_passes_hygiene_and_is_due_after_its_report() -> None:
    given: dict[str, Any] = {"live_tokens": 120_000, "live_messages": 800}
    assert met(load(**given), threshold_tokens=100_000) == set()
    assert batch_due(load(110_000, **given), under(threshold_tokens=100_000)) is (
        Trigger.AFTER_RESPONSE
    )


def test_a_smaller_model_is_due_by_the_same_numbers() -> None:
    assert met(load(100_000, live_tokens=100_000)) == set()
    smaller = load(100_000, live_tokens=109_000, context_window=128_000)
    assert met(smaller) == {Trigger.AFTER_RESPONSE, Trigger.HYGIENE_TOKENS}


def test_the_strongest_of_several_triggers_wins() -> None:
    over = load(190_000, live_tokens=190_000)
    assert batch_due(over, under()) is Trigger.HYGIENE_TOKENS
    crowded = load(190_000, live_tokens=190_000, live_messages=5_000)
    assert batch_due(crowded, under()) is Trigger.HYGIENE_COUNT


def test_of_suppressed_triggers_the_next_one_is_taken() -> None:
    over = load(190_000, live_tokens=190_000)
    assert batch_due(over, under(COOLS)) is None
    assert batch_due(over, under(POOR)) is Trigger.HYGIENE_TOKENS
    assert batch_due(load(190_000), under(POOR)) is None
    crowded = load(190_000, live_tokens=190_000, live_messages=5_000)
    assert batch_due(crowded, under({**COOLS, **POOR})) is Trigger.HYGIENE_COUNT


def test_the_main_switch_stops_everything() -> None:
    crowded = load(190_000, live_tokens=190_000, live_messages=5_000)
    assert batch_due(crowded, under(enabled=False)) is None
    assert not micro_may_run(session_record(), under(enabled=False))
    thread = load(190_000, managed_by="codex")
    assert not codex_is_asked(thread, under(enabled=False, **HERMES))


def test_a_window_without_room_makes_nothing_due() -> None:
    nowhere: dict[str, Any] = {"context_window": 10, "reserved_output": 10, "live_messages": 9_000}
    assert met(load(10**6, **nowhere)) == set()
    assert not codex_is_asked(load(10**6, managed_by="codex", **nowhere), under(**HERMES))


@pytest.mark.parametrize(
    ("guards", "may"),
    [
        ({}, True),
        (COOLS, False),
        (POOR, True),
        ({GuardName.UNDONE: GuardRecord(0, 10)}, False),
        ({GuardName.UNDONE: GuardRecord(0, 9)}, True),
        ({GuardName.NOTHING_TO_COMPACT: GuardRecord(40, 7)}, True),
    ],
)
def test_micro_honours_the_cooldown_and_an_undo(
    guards: dict[GuardName, GuardRecord], may: bool
) -> None:
    assert micro_may_run(session_record(), under(guards)) is may


def test_micro_can_be_switched_off_alone() -> None:
    assert not micro_may_run(session_record(), under(micro_compact=False))


class TestSessionsThatOpenAICompacts:
    def test_get_the_batch_pass_at_our_threshold_and_nothing_else(self) -> None:
        crowded = {"live_tokens": 190_000, "live_messages": 9_000, **BY_OPENAI}
        assert met(load(149_999, **crowded), **NATIVE) == set()
        assert met(load(150_000, **crowded), **NATIVE) == {Trigger.AFTER_RESPONSE}
        assert not micro_may_run(session_record(**BY_OPENAI), under(**NATIVE))

    def test_are_ours_again_when_that_is_switched_off(self) -> None:
        assert met(load(live_tokens=190_000, **BY_OPENAI)) == {Trigger.HYGIENE_TOKENS}
        assert micro_may_run(session_record(**BY_OPENAI), under())


class TestCodexThreads:
    def test_get_no_job_of_ours(self) -> None:
        thread = load(190_000, managed_by="codex", live_tokens=190_000, live_messages=9_000)
        for auto in ("native", "hermes", "off"):
            assert met(thread, codex_app_server_auto=auto) == set()
            given = under(codex_app_server_auto=auto)
            assert not micro_may_run(thread.session, given)
            assert codex_is_asked(thread, given) is (auto == "hermes")

    @pytest.mark.parametrize(
        ("prompt", "asked"), [(None, False), (149_999, False), (150_000, True)]
    )
    def test_are_to_be_compacted_from_our_threshold_on(
        self, prompt: int | None, asked: bool
    ) -> None:
        thread = load(prompt, managed_by="codex", live_tokens=190_000)
        assert codex_is_asked(thread, under(**HERMES)) is asked

    @pytest.mark.parametrize(
        ("turn_open", "signalled", "asked"),
        [(False, 9, True), (False, 10, False), (True, 10, True), (True, 11, False)],
    )
    def test_are_asked_for_once_a_turn(self, turn_open: bool, signalled: int, asked: bool) -> None:
        guards = {GuardName.THREAD_SIGNAL: GuardRecord(0, signalled)}
        thread = load(190_000, managed_by="codex", turn_open=turn_open)
        assert codex_is_asked(thread, under(guards, **HERMES)) is asked

    def test_are_the_only_ones(self) -> None:
        assert not codex_is_asked(load(190_000), under(**HERMES))


def test_an_open_turn_has_the_next_number() -> None:
    assert present_turn(session_record(turns=3, turn_open=False)) == 3
    assert present_turn(session_record(turns=3, turn_open=True)) == 4
