"""The failure policy: what follows when no summary came back."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.policy import failures
from workers.policy.failures import AskAgain, GiveUp, RetryPolicy
from workers.policy.triggers import RULES, Trigger
from workers.settings import CompressionSettings
from workers.summariser.contract import ErrorClass, SummariserError

NOT_ASKED = [one for one in ErrorClass if one.not_asked]
PERMANENT = [one for one in ErrorClass if one.permanent]
OVERFLOW = ErrorClass.CONTEXT_OVERFLOW
RETRYABLE = [one for one in ErrorClass if not (one.not_asked or one.permanent or one is OVERFLOW)]
OF_THE_ENDPOINT = [one for one in RETRYABLE if one.blames_endpoint]
BAD_ANSWERS = [one for one in RETRYABLE if not one.blames_endpoint]
BYPASSING = [one for one in Trigger if RULES[one].bypasses]
WAITING = [one for one in Trigger if not RULES[one].bypasses]


def after(
    error_class: ErrorClass,
    trigger: Trigger = Trigger.AFTER_RESPONSE,
    *,
    tries: int = 0,
    retry_after: float | None = None,
    retry: RetryPolicy | None = None,
    seed: int = 7,
    attempts: int = 3,
) -> AskAgain | GiveUp:
    return failures.after_failure(
        SummariserError(error_class, retry_after=retry_after),
        tries=tries,
        rules=RULES[trigger],
        settings=CompressionSettings(summary_attempts=attempts),
        retry=retry or RetryPolicy(),
        rng=Random(seed),
    )


def replace_placeholder(
    error_class: ErrorClass, *, tries: int = 0, retry_after: float | None = None, seed: int = 7
) -> AskAgain:
    return failures.retry_replacement(
        SummariserError(error_class, retry_after=retry_after),
        tries=tries,
        retry=RetryPolicy(),
        rng=Random(seed),
    )


def test_the_permanent_failures_are_401_403_404_and_400() -> None:
    assert set(PERMANENT) == {ErrorClass.AUTH, ErrorClass.NOT_FOUND, ErrorClass.BAD_REQUEST}


@pytest.mark.parametrize("error_class", PERMANENT)
def test_a_permanent_failure_is_not_repeated(error_class: ErrorClass) -> None:
    assert after(error_class) == GiveUp()


@pytest.mark.parametrize("error_class", RETRYABLE)
def test_all_else_is_asked_as_often_as_a_job_may(error_class: ErrorClass) -> None:
    steps = [after(error_class, tries=tries) for tries in range(3)]
    assert [type(one) for one in steps] == [AskAgain, AskAgain, GiveUp]
    assert all(one.counts for one in steps if isinstance(one, AskAgain))
    assert after(error_class, attempts=1) == GiveUp()


@given(tries=st.integers(0, 40), seed=st.integers(), error_class=st.sampled_from(RETRYABLE))
def test_the_waits_are_jittered_fully_below_a_bound_that_doubles_up_to_ten_minutes(
    tries: int, seed: int, error_class: ErrorClass
) -> None:
    step = after(error_class, tries=tries, seed=seed, attempts=10)
    if tries >= 9:
        assert step == GiveUp()
        return
    assert isinstance(step, AskAgain)
    assert 0 <= step.delay_ms <= min(600_000, 2_000 * 2**tries)


def test_the_jitter_reaches_from_nothing_to_the_bound() -> None:
    steps = [after(ErrorClass.SERVER_ERROR, tries=1, seed=seed) for seed in range(200)]
    waits = [one.delay_ms for one in steps if isinstance(one, AskAgain)]
    assert len(waits) == 200
    assert min(waits) < 100
    assert max(waits) > 3_900


@pytest.mark.parametrize(
    ("asked", "least_ms"), [(7.0, 7_000), (0.25, 250), (600.0, 600_000), (86_400.0, 600_000)]
)
def test_the_endpoint_may_ask_for_a_longer_wait(asked: float, least_ms: int) -> None:
    step = after(ErrorClass.RATE_LIMITED, retry_after=asked)
    assert isinstance(step, AskAgain)
    assert least_ms <= step.delay_ms <= max(least_ms, 2_000)


def test_what_was_too_long_is_asked_in_halves_at_once() -> None:
    assert after(OVERFLOW) == AskAgain(0, counts=True)
    assert after(OVERFLOW, tries=2) == GiveUp()


@pytest.mark.parametrize("error_class", ErrorClass)
def test_the_count_valve_gives_up_at_the_first_failure(error_class: ErrorClass) -> None:
    assert after(error_class, Trigger.HYGIENE_COUNT) == GiveUp()


@pytest.mark.parametrize("trigger", BYPASSING)
def test_an_open_breaker_is_a_failed_attempt_for_a_pass_that_cannot_wait(trigger: Trigger) -> None:
    assert after(ErrorClass.BREAKER_OPEN, trigger, retry_after=30.0) == GiveUp()


@pytest.mark.parametrize("trigger", WAITING)
@pytest.mark.parametrize("tries", [0, 2])
def test_everything_else_waits_for_the_breaker_without_spending_an_attempt(
    trigger: Trigger, tries: int
) -> None:
    step = after(ErrorClass.BREAKER_OPEN, trigger, tries=tries, retry_after=30.0)
    assert step == AskAgain(30_000, counts=False)


@pytest.mark.parametrize("trigger", [one for one in Trigger if not RULES[one].placeholder_at_once])
def test_everybody_but_the_count_valve_waits_for_the_next_minute(trigger: Trigger) -> None:
    step = after(ErrorClass.LIMIT_REACHED, trigger, tries=2, retry_after=12.5)
    assert step == AskAgain(12_500, counts=False)


@pytest.mark.parametrize("error_class", NOT_ASKED)
def test_a_wait_that_nobody_names_is_short(error_class: ErrorClass) -> None:
    assert after(error_class) == AskAgain(2_000, counts=False)
    assert replace_placeholder(error_class) == AskAgain(2_000, counts=False)


@given(
    tries=st.integers(0, 10_000),
    seed=st.integers(),
    error_class=st.sampled_from([*RETRYABLE, *PERMANENT, OVERFLOW]),
)
def test_replacing_a_placeholder_is_tried_for_ever_and_ever_more_rarely(
    tries: int, seed: int, error_class: ErrorClass
) -> None:
    step = replace_placeholder(error_class, tries=tries, seed=seed)
    longest = 600_000 if error_class.blames_endpoint else 86_400_000
    assert step.counts
    assert 0 <= step.delay_ms <= min(longest, 30_000 * 2 ** min(tries, 30))


def test_replacement_honours_what_the_endpoint_asks_for() -> None:
    assert replace_placeholder(ErrorClass.RATE_LIMITED, retry_after=400.0).delay_ms == 400_000
    assert replace_placeholder(ErrorClass.BREAKER_OPEN, retry_after=90.0) == AskAgain(
        90_000, counts=False
    )


def test_hygiene_has_a_cooldown_of_its_own() -> None:
    settings = CompressionSettings()
    cooldowns = {one: failures.cooldown_ms(RULES[one], settings) for one in Trigger}
    hygiene = {Trigger.HYGIENE_TOKENS, Trigger.HYGIENE_COUNT}
    assert {one for one, ms in cooldowns.items() if ms == 300_000} == hygiene
    assert set(cooldowns.values()) == {300_000, 600_000}
    other = CompressionSettings(failure_cooldown_seconds=1.5, hygiene_failure_cooldown_seconds=0)
    assert failures.cooldown_ms(RULES[Trigger.MANUAL], other) == 1_500
    assert failures.cooldown_ms(RULES[Trigger.HYGIENE_COUNT], other) == 0


def test_a_placeholder_is_used_unless_failures_abort_and_for_the_count_valve_always() -> None:
    kind, strict = CompressionSettings(), CompressionSettings(abort_on_summary_failure=True)
    assert {one for one in Trigger if not failures.uses_placeholder(RULES[one], kind)} == {
        Trigger.RECOMPACT
    }
    assert {one for one in Trigger if failures.uses_placeholder(RULES[one], strict)} == {
        Trigger.HYGIENE_COUNT
    }


@pytest.mark.parametrize(
    ("before", "now", "poor"), [(1_000, 899, False), (1_000, 900, True), (1_000, 1_000, True)]
)
def test_a_pass_that_leaves_ninety_percent_is_a_poor_one(before: int, now: int, poor: bool) -> None:
    assert failures.is_poor(before, now) is poor
