"""The table of triggers: priorities, and which guards each honours."""

from __future__ import annotations

import pytest

from workers.policy.triggers import RULES, Trigger, rules_of

C, T, N = "cooldown", "thrash", "no-op"

GUARDS = {
    Trigger.AFTER_RESPONSE: {C, T, N},
    Trigger.PREFLIGHT: {C, T, N},
    Trigger.HYGIENE_TOKENS: {C, N},
    Trigger.HYGIENE_COUNT: set(),
    Trigger.IDLE: {C, T, N},
    Trigger.PAYLOAD_TOO_LARGE: set(),
    Trigger.LONG_CONTEXT_RATE_LIMIT: set(),
    Trigger.OUTPUT_TOO_LARGE: set(),
    Trigger.CONTEXT_OVERFLOW: set(),
    Trigger.ENGINE: {C, T, N},
    Trigger.MANUAL: set(),
    Trigger.REPLACE_PLACEHOLDER: set(),
    # Not in the table: bulk re-compaction is to be as careful as an automatic pass.
    Trigger.RECOMPACT: {C, T, N},
}

ERRORS = {
    Trigger.PAYLOAD_TOO_LARGE,
    Trigger.LONG_CONTEXT_RATE_LIMIT,
    Trigger.OUTPUT_TOO_LARGE,
    Trigger.CONTEXT_OVERFLOW,
}


def those(flag: str) -> set[Trigger]:
    return {trigger for trigger, rules in RULES.items() if getattr(rules, flag)}


@pytest.mark.parametrize("trigger", list(Trigger))
def test_a_trigger_honours_the_guards_of_its_row(trigger: Trigger) -> None:
    rules = RULES[trigger]
    honoured = {C: rules.honours_cooldown, T: rules.honours_thrash, N: rules.honours_no_op}
    assert {name for name, honours in honoured.items() if honours} == GUARDS[trigger]


def test_errors_people_and_the_count_valve_bypass_the_guards() -> None:
    assert those("bypasses") == ERRORS | {Trigger.MANUAL, Trigger.HYGIENE_COUNT}


def test_only_a_person_passes_the_main_switch() -> None:
    assert set(Trigger) - those("honours_switch") == {Trigger.MANUAL}


def test_only_the_first_two_triggers_and_those_that_bypass_enter_an_open_turn() -> None:
    first = {Trigger.AFTER_RESPONSE, Trigger.PREFLIGHT}
    assert those("enters_open_turn") == first | those("bypasses")


def test_old_tool_output_is_shortened_first_unless_a_person_an_error_or_the_valve_asked() -> None:
    at_once = {
        Trigger.MANUAL,
        Trigger.HYGIENE_COUNT,
        Trigger.REPLACE_PLACEHOLDER,
        Trigger.RECOMPACT,
    } | ERRORS
    assert set(Trigger) - those("prunes_first") == at_once


def test_hygiene_has_limits_of_its_own_and_its_valve_falls_to_a_placeholder_at_once() -> None:
    assert those("hygiene") == {Trigger.HYGIENE_TOKENS, Trigger.HYGIENE_COUNT}
    assert those("placeholder_at_once") == {Trigger.HYGIENE_COUNT}


def test_what_bypasses_the_guards_is_stronger_than_what_does_not_and_a_person_is_strongest() -> (
    None
):
    bypassing = those("bypasses")
    weakest = min(RULES[trigger].priority for trigger in bypassing)
    others = set(Trigger) - bypassing
    assert all(RULES[trigger].priority < weakest for trigger in others)
    person = RULES[Trigger.MANUAL].priority
    assert all(RULES[t].priority < person for t in Trigger if t is not Trigger.MANUAL)


def test_a_stored_trigger_has_its_rules_and_one_of_a_newer_version_mild_ones() -> None:
    assert all(rules_of(trigger.value) is RULES[trigger] for trigger in Trigger)
    assert rules_of("from the future") is RULES[Trigger.IDLE]
