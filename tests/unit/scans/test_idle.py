"""Which idle sessions are worth a pass, and what keeps one from it."""

from __future__ import annotations

from typing import Any

import pytest

from storage.guards import GuardName, GuardRecord
from tests.support.sessions.session_records import session_record
from workers.policy.calibration import Calibration
from workers.scans.idle import IdleCheck, check_idle
from workers.settings import CompressionSettings
from workers.turn.due import Restraints

OURS = 11


def look(
    guards: dict[GuardName, GuardRecord] | None = None,
    settings: dict[str, Any] | None = None,
    **facts: Any,
) -> IdleCheck:
    under = Restraints(CompressionSettings(**settings or {}), guards or {}, OURS)
    return check_idle(session_record(**facts), under)


@pytest.mark.parametrize(
    ("tokens", "found"), [(63_999, IdleCheck.NOT_DUE), (64_000, IdleCheck.DUE)]
)
def test_a_pass_is_worth_it_from_64000_tokens_on(tokens: int, found: IdleCheck) -> None:
    assert look(live_tokens=tokens) is found


@pytest.mark.parametrize(
    ("tokens", "found"), [(19_999, IdleCheck.NOT_DUE), (20_000, IdleCheck.DUE)]
)
def test_or_from_the_threshold_on_where_that_is_lower(tokens: int, found: IdleCheck) -> None:
    assert look(settings={"threshold_tokens": 20_000}, live_tokens=tokens) is found


@pytest.mark.parametrize(
    ("tokens", "found"), [(43_999, IdleCheck.NOT_DUE), (44_000, IdleCheck.DUE)]
)
def test_what_the_provider_would_count_is_what_counts(tokens: int, found: IdleCheck) -> None:
    calibration = Calibration(additive=20_000, ratio=1.0, samples=1, doubt=(1.0, 0.0, 1.0)).dump()
    assert look(calibration=calibration, live_tokens=tokens) is found


@pytest.mark.parametrize(
    ("facts", "settings"),
    [
        ({"managed_by": "codex"}, {}),
        ({"managed_by": "openai", "model": "gpt-5.6"}, {"codex_responses_native": True}),
        ({"context_window": 1_000, "reserved_output": 1_000}, {}),
    ],
)
def test_what_somebody_else_compacts_and_what_has_no_room_is_left_alone(
    facts: dict[str, Any], settings: dict[str, Any]
) -> None:
    assert look(settings=settings, live_tokens=100_000, **facts) is IdleCheck.NOT_DUE


@pytest.mark.parametrize(
    "guards",
    [
        {GuardName.COOLDOWN: GuardRecord(0, OURS, left_ms=1)},
        {GuardName.POOR_PASSES: GuardRecord(2, None, left_ms=1)},
    ],
)
def test_what_rests_for_a_while_is_looked_at_again(guards: dict[GuardName, GuardRecord]) -> None:
    assert look(guards, live_tokens=100_000) is IdleCheck.SUPPRESSED


@pytest.mark.parametrize(
    "guards",
    [
        {GuardName.UNDONE: GuardRecord(0, 10)},
        {GuardName.NOTHING_TO_COMPACT: GuardRecord(40, 7)},
        {GuardName.NOT_SMALLER: GuardRecord(100_000, 7)},
    ],
)
def test_what_waits_for_activity_is_not(guards: dict[GuardName, GuardRecord]) -> None:
    assert look(guards, live_tokens=100_000) is IdleCheck.NOT_DUE
    assert look(guards, live_tokens=10) is IdleCheck.NOT_DUE


def test_guards_that_have_ended_suppress_nothing() -> None:
    guards = {
        GuardName.COOLDOWN: GuardRecord(0, OURS, until_at=1, left_ms=0),
        GuardName.POOR_PASSES: GuardRecord(9, None, until_at=1, left_ms=0),
        GuardName.UNDONE: GuardRecord(0, 9),
    }
    assert look(guards, live_tokens=100_000) is IdleCheck.DUE
