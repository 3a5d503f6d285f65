"""Which trigger would ask for a pass now, and what suppresses each of them."""

from __future__ import annotations

from typing import Any

import pytest

from storage.endpoints import EndpointState
from storage.guards import GuardName, GuardRecord
from tests.support.sessions.session_records import session_record
from workers.policy.calibration import Calibration
from workers.policy.guards import Suppression
from workers.policy.triggers import Trigger
from workers.settings import CompressionSettings
from workers.turn.due import (
    MICRO,
    PRUNE,
    Load,
    Restraints,
    TriggerStatus,
    nobody_answers,
    trigger_statuses,
)

OURS = 11
DOWN = Suppression("the summariser is down (connection)", left_ms=30_000)
COOLS = {GuardName.COOLDOWN: GuardRecord(0, OURS, left_ms=60_000, detail="rate_limited")}
BYPASSING = {Trigger.HYGIENE_COUNT, Trigger.CONTEXT_OVERFLOW}


def statuses_of(
    guards: dict[GuardName, GuardRecord] | None = None,
    *,
    prompt: int | None = None,
    session: dict[str, Any] | None = None,
    micro_due: bool = True,
    placeholder: bool = False,
    down: Suppression | None = None,
    **settings: Any,
) -> dict[str, TriggerStatus]:
    load = Load(session_record(**(session or {})), Calibration(), prompt)
    under = Restraints(CompressionSettings(**settings), guards or {}, OURS)
    found = trigger_statuses(load, under, micro_due=micro_due, placeholder=placeholder, down=down)
    return {one.trigger: one for one in found}


def held(found: dict[str, TriggerStatus]) -> set[str]:
    return {trigger for trigger, one in found.items() if one.hold is not None}


def endpoint(**facts: Any) -> EndpointState:
    values: dict[str, Any] = {
        "name": "m at h",
        "is_open": True,
        "open_for_ms": 30_000,
        "probing": False,
        "failures": 3,
        "error_class": "connection",
        "requests": 0,
        "tokens": 0,
    }
    return EndpointState(**{**values, **facts})


def test_a_small_session_has_nothing_due_and_nothing_held() -> None:
    found = statuses_of(micro_due=False)
    assert {one.met for one in found.values()} == {False, None}
    assert held(found) == set()
    assert [trigger for trigger, one in found.items() if one.met is None] == [
        Trigger.CONTEXT_OVERFLOW,
        Trigger.ENGINE,
    ]


def test_sizes_stand_beside_the_limits_that_they_are_compared_with() -> None:
    found = statuses_of(session={"live_tokens": 160_000, "live_messages": 5000}, prompt=149_999)
    compared = {t: (one.size, one.limit, one.met) for t, one in found.items() if one.limit}
    assert compared == {
        Trigger.AFTER_RESPONSE: (149_999, 150_000, False),
        Trigger.PREFLIGHT: (160_000, 150_000, True),
        Trigger.HYGIENE_TOKENS: (160_000, 170_000, False),
        Trigger.HYGIENE_COUNT: (5000, 5000, True),
        PRUNE: (160_000, 150_000, False),
    }
    assert found[MICRO].met
    assert not found[Trigger.REPLACE_PLACEHOLDER].met
    assert statuses_of(placeholder=True)[Trigger.REPLACE_PLACEHOLDER].met


def test_many_messages_are_met_before_a_request_too() -> None:
    assert statuses_of(session={"live_messages": 5000})[Trigger.PREFLIGHT].met
    assert not statuses_of(session={"live_messages": 4999})[Trigger.PREFLIGHT].met


def test_an_unknown_prompt_is_reported_as_unknown() -> None:
    assert statuses_of()[Trigger.AFTER_RESPONSE].size is None


def test_a_window_without_room_leaves_only_the_count_of_messages() -> None:
    found = statuses_of(session={"context_window": 1000, "reserved_output": 1000})
    assert found[Trigger.AFTER_RESPONSE].limit is None
    assert found[Trigger.PREFLIGHT].met is False
    assert found[Trigger.HYGIENE_COUNT].limit == 5000


def test_a_cooldown_suppresses_what_honours_it_and_replacement_goes_on() -> None:
    found = statuses_of(COOLS)
    assert held(found) == {
        Trigger.AFTER_RESPONSE,
        Trigger.PREFLIGHT,
        Trigger.HYGIENE_TOKENS,
        Trigger.ENGINE,
        MICRO,
    }
    hold = found[MICRO].hold
    assert hold is not None
    assert (hold.guard, hold.left_ms) == (GuardName.COOLDOWN, 60_000)


@pytest.mark.parametrize(
    ("tokens", "guards", "settings", "met"),
    [
        (149_999, COOLS, {}, False),
        (150_000, COOLS, {}, True),
        (150_000, {GuardName.POOR_PASSES: GuardRecord(2, None, left_ms=9)}, {}, True),
        (150_000, {}, {}, False),
        (30_000, {}, {"proactive_prune_tokens": 30_000}, True),
        (29_999, {}, {"proactive_prune_tokens": 30_000}, False),
    ],
)
def test_old_output_is_shortened_where_summaries_rest_or_a_size_is_reached(
    tokens: int, guards: dict[GuardName, GuardRecord], settings: dict[str, Any], met: bool
) -> None:
    found = statuses_of(guards, session={"live_tokens": tokens}, **settings)[PRUNE]
    assert (found.met, found.hold, found.size) == (met, None, tokens)
    assert found.limit == settings.get("proactive_prune_tokens", 150_000)


def test_the_mark_of_a_pruning_pass_suppresses_until_the_session_has_grown() -> None:
    mark = {GuardName.PRUNE_MARK: GuardRecord(200_000, 40_000, detail="m")}
    given: dict[str, Any] = {"proactive_prune_tokens": 30_000}

    def hold(tokens: int, **facts: Any) -> Suppression | None:
        session = {"live_tokens": tokens, "model": "m", **facts}
        return statuses_of(mark, session=session, **given)[PRUNE].hold

    below = hold(39_999)
    assert below is not None
    assert below.guard is GuardName.PRUNE_MARK
    assert hold(40_000) is None
    assert hold(39_999, model="another") is None
    assert hold(39_999, context_window=100_000) is None


def test_a_summariser_that_is_down_suppresses_all_but_what_bypasses_the_guards() -> None:
    found = statuses_of(down=DOWN)
    assert set(found) - held(found) == BYPASSING | {PRUNE}
    assert found[Trigger.REPLACE_PLACEHOLDER].hold == DOWN


@pytest.mark.parametrize(("left", "expected"), [(29_999, None), (30_001, GuardName.COOLDOWN)])
def test_of_a_cooldown_and_a_breaker_the_longer_one_is_reported(
    left: int, expected: GuardName | None
) -> None:
    cools = {GuardName.COOLDOWN: GuardRecord(0, OURS, left_ms=left)}
    hold = statuses_of(cools, down=DOWN)[Trigger.ENGINE].hold
    assert hold is not None
    assert hold.guard == expected


def test_the_main_switch_is_reported_before_everything_else() -> None:
    found = statuses_of(COOLS, down=DOWN, enabled=False)
    assert held(found) == set(found)
    assert {one.hold.reason for one in found.values() if one.hold} == {
        "compaction is switched off (compression.enabled)"
    }


def test_micro_compaction_that_is_switched_off_says_so() -> None:
    found = statuses_of(micro_compact=False)
    assert held(found) == {MICRO}


def test_a_thread_of_codex_is_left_to_it_altogether() -> None:
    found = statuses_of(session={"managed_by": "codex", "live_messages": 9000})
    assert held(found) == set(found)
    assert not found[Trigger.HYGIENE_COUNT].met


def test_where_openai_compacts_a_report_is_what_counts() -> None:
    found = statuses_of(
        session={"managed_by": "openai", "model": "gpt-5.6", "live_tokens": 900_000},
        prompt=150_000,
        codex_responses_native=True,
    )
    assert held(found) == {Trigger.HYGIENE_TOKENS, Trigger.HYGIENE_COUNT, MICRO, PRUNE}
    assert found[Trigger.AFTER_RESPONSE].met


def test_what_a_turn_may_ask_for_is_spent_until_the_next_one() -> None:
    spent = {
        GuardName.PASSES_OF_TURN: GuardRecord(3, 10),
        GuardName.ENGINE_REQUEST: GuardRecord(0, 10),
    }
    assert held(statuses_of(spent)) == {Trigger.PREFLIGHT, Trigger.ENGINE}
    assert held(statuses_of(spent, session={"turns": 11})) == set()
    begun = {GuardName.PASSES_OF_TURN: GuardRecord(1, 10)}
    assert held(statuses_of(begun)) == set()
    no_progress = {GuardName.PASSES_OF_TURN: GuardRecord(1, 10, detail="no progress")}
    assert held(statuses_of(no_progress)) == {Trigger.PREFLIGHT}


@pytest.mark.parametrize(
    "chain",
    [
        [],
        [None],
        [endpoint(is_open=False, open_for_ms=0)],
        [endpoint(open_for_ms=0)],
        [endpoint(), None],
        [endpoint(), endpoint(open_for_ms=0)],
    ],
)
def test_somebody_can_be_asked_while_one_of_the_chain_can(chain: list[Any]) -> None:
    assert nobody_answers(chain) is None


def test_a_chain_that_is_down_is_worth_asking_when_its_first_breaker_ends() -> None:
    hold = nobody_answers([endpoint(), endpoint(open_for_ms=5_000, error_class="auth")])
    assert hold == Suppression("the summariser is down (auth)", None, 5_000)
