"""What suppresses a pass, by trigger and guard, up to the last number that does."""

from __future__ import annotations

from typing import Any

import pytest

from storage.guards import GuardName, GuardRecord
from tests.support.sessions.session_records import session_record
from workers.policy.guards import Suppression, suppressed_by
from workers.policy.triggers import RULES, Trigger
from workers.settings import CompressionSettings

OURS, ANOTHER = 11, 12
SESSION = session_record()
"""Revision 7, next position 40, 10 turns, 20,000 live tokens, threshold 150,000."""

COOLS = GuardRecord(0, OURS, until_at=9, left_ms=5_000, detail="timeout")
POOR = GuardRecord(2, None, until_at=9, left_ms=3_000)
NOTHING = GuardRecord(40, 7, detail="the middle is empty")
LARGER = GuardRecord(20_000, 7)
UNDONE = GuardRecord(0, 10)

ALL = {
    GuardName.UNDONE: UNDONE,
    GuardName.COOLDOWN: COOLS,
    GuardName.POOR_PASSES: POOR,
    GuardName.NOTHING_TO_COMPACT: NOTHING,
    GuardName.NOT_SMALLER: LARGER,
}

AUTOMATIC = [trigger for trigger in Trigger if trigger is not Trigger.MANUAL]
BYPASSING = [
    Trigger.HYGIENE_COUNT,
    Trigger.PAYLOAD_TOO_LARGE,
    Trigger.LONG_CONTEXT_RATE_LIMIT,
    Trigger.OUTPUT_TOO_LARGE,
    Trigger.CONTEXT_OVERFLOW,
    Trigger.MANUAL,
]
GUARDED = [trigger for trigger in Trigger if trigger not in BYPASSING]


def hold(
    trigger: Trigger,
    guards: dict[GuardName, GuardRecord] | None = None,
    *,
    session: Any = SESSION,
    fingerprint: int = OURS,
    **settings: Any,
) -> Suppression | None:
    return suppressed_by(
        RULES[trigger],
        guards or {},
        session=session,
        settings=CompressionSettings(**settings),
        fingerprint=fingerprint,
    )


def guard_of(trigger: Trigger, guards: dict[GuardName, GuardRecord], **more: Any) -> Any:
    found = hold(trigger, guards, **more)
    return None if found is None else found.guard


@pytest.mark.parametrize("trigger", list(Trigger))
def test_without_guards_nothing_is_suppressed(trigger: Trigger) -> None:
    assert hold(trigger) is None


@pytest.mark.parametrize("trigger", AUTOMATIC)
def test_the_main_switch_stops_every_trigger_but_a_person(trigger: Trigger) -> None:
    stopped = hold(trigger, enabled=False)
    assert stopped is not None
    assert stopped.guard is None
    assert "compression.enabled" in stopped.reason


def test_a_person_passes_the_main_switch_and_every_guard() -> None:
    assert hold(Trigger.MANUAL, ALL, enabled=False) is None


@pytest.mark.parametrize("trigger", BYPASSING)
def test_what_bypasses_the_guards_bypasses_all_of_them(trigger: Trigger) -> None:
    assert hold(trigger, ALL) is None


@pytest.mark.parametrize(
    ("guard", "passing"),
    [
        (GuardName.UNDONE, set()),
        (GuardName.COOLDOWN, {Trigger.REPLACE_PLACEHOLDER}),
        (GuardName.POOR_PASSES, {Trigger.REPLACE_PLACEHOLDER, Trigger.HYGIENE_TOKENS}),
        (GuardName.NOTHING_TO_COMPACT, {Trigger.REPLACE_PLACEHOLDER}),
        (GuardName.NOT_SMALLER, {Trigger.REPLACE_PLACEHOLDER}),
    ],
)
def test_each_guard_suppresses_the_triggers_of_the_table(
    guard: GuardName, passing: set[Trigger]
) -> None:
    for trigger in GUARDED:
        expected = None if trigger in passing else guard
        assert guard_of(trigger, {guard: ALL[guard]}) == expected


@pytest.mark.parametrize(("turns", "held"), [(9, False), (10, True), (11, False)])
def test_an_undo_suppresses_until_one_more_turn_is_closed(turns: int, held: bool) -> None:
    session = session_record(turns=turns)
    guards = {GuardName.UNDONE: UNDONE}
    assert (hold(Trigger.AFTER_RESPONSE, guards, session=session) is not None) is held


@pytest.mark.parametrize(("left_ms", "held"), [(0, False), (1, True), (600_000, True)])
def test_a_cooldown_suppresses_until_its_last_millisecond(left_ms: int, held: bool) -> None:
    guards = {GuardName.COOLDOWN: GuardRecord(0, OURS, left_ms=left_ms, detail="timeout")}
    found = hold(Trigger.PREFLIGHT, guards)
    expected = Suppression("cooldown after a failure (timeout)", GuardName.COOLDOWN, left_ms)
    assert found == (expected if held else None)


def test_a_cooldown_of_another_summariser_is_void() -> None:
    guards = {GuardName.COOLDOWN: COOLS}
    assert guard_of(Trigger.IDLE, guards) is GuardName.COOLDOWN
    assert guard_of(Trigger.IDLE, guards, fingerprint=ANOTHER) is None


def test_a_cooldown_that_names_no_summariser_suppresses() -> None:
    guards = {GuardName.COOLDOWN: GuardRecord(0, None, left_ms=1)}
    assert guard_of(Trigger.IDLE, guards) is GuardName.COOLDOWN


@pytest.mark.parametrize(
    ("count", "left_ms", "held"),
    [(0, 300_000, False), (1, 300_000, False), (2, 1, True), (3, 1, True), (2, 0, False)],
)
def test_poor_passes_suppress_from_the_second_on_until_one_probe_may_go(
    count: int, left_ms: int, held: bool
) -> None:
    guards = {GuardName.POOR_PASSES: GuardRecord(count, None, left_ms=left_ms)}
    found = hold(Trigger.AFTER_RESPONSE, guards)
    assert (found is not None) is held
    if found is not None:
        assert (found.guard, found.left_ms) == (GuardName.POOR_PASSES, left_ms)


@pytest.mark.parametrize(
    ("changed", "held"),
    [({}, True), ({"revision": 8}, False), ({"next_position": 41}, False)],
)
def test_a_remembered_no_op_suppresses_while_nothing_changed(
    changed: dict[str, int], held: bool
) -> None:
    guards = {GuardName.NOTHING_TO_COMPACT: NOTHING}
    found = hold(Trigger.PREFLIGHT, guards, session=session_record(**changed))
    expected = Suppression("nothing to compact: the middle is empty", GuardName.NOTHING_TO_COMPACT)
    assert found == (expected if held else None)


@pytest.mark.parametrize(
    ("changed", "held"),
    [
        ({"live_tokens": 20_000}, True),
        ({"live_tokens": 27_499}, True),
        ({"live_tokens": 27_500}, False),
        ({"live_tokens": 27_501}, False),
        ({"live_tokens": 10_000}, True),
        ({"revision": 8}, False),
        # There the threshold is 54,400 and its twentieth 2,720.
        ({"context_window": 64_000, "live_tokens": 22_719}, True),
        ({"context_window": 64_000, "live_tokens": 22_720}, False),
    ],
)
def test_a_summary_that_was_not_smaller_suppresses_until_a_twentieth_of_the_threshold_came_on_top(
    changed: dict[str, int], held: bool
) -> None:
    guards = {GuardName.NOT_SMALLER: LARGER}
    found = guard_of(Trigger.PREFLIGHT, guards, session=session_record(**changed))
    assert found == (GuardName.NOT_SMALLER if held else None)


def test_a_window_without_room_is_no_reason_to_try_again() -> None:
    session = session_record(context_window=100, reserved_output=100, live_tokens=90_000)
    guards = {GuardName.NOT_SMALLER: LARGER}
    assert guard_of(Trigger.PREFLIGHT, guards, session=session) is GuardName.NOT_SMALLER


def test_of_several_guards_the_one_with_most_time_left_is_reported() -> None:
    assert guard_of(Trigger.AFTER_RESPONSE, ALL) is GuardName.COOLDOWN
    longer = {**ALL, GuardName.POOR_PASSES: GuardRecord(2, None, left_ms=5_001)}
    assert guard_of(Trigger.AFTER_RESPONSE, longer) is GuardName.POOR_PASSES
    assert guard_of(Trigger.HYGIENE_TOKENS, longer) is GuardName.COOLDOWN
