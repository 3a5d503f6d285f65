from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.policy.threshold import NoUsableWindowError, Threshold, reasons_first, threshold_tokens
from workers.settings import CompressionSettings


def _threshold(
    context_window: int, model: str = "some-model", reserved_output: int = 0, **given: Any
) -> Threshold:
    return threshold_tokens(
        context_window=context_window,
        model=model,
        reserved_output=reserved_output,
        settings=CompressionSettings(**given),
    )


@pytest.mark.parametrize(
    ("window", "reserve", "model", "cap", "expected"),
    [
        (64_000, 0, "m", None, 54_400),
        (65_536, 0, "m", None, 55_705),
        (128_000, 0, "m", None, 96_000),
        (200_000, 0, "m", None, 150_000),
        (200_000, 0, "m", 50_000, 50_000),
        (512_000, 0, "m", None, 256_000),
        (1_000_000, 65_536, "m", None, 467_232),
        (128_000, 0, "gpt-5.3-codex-spark", None, 89_600),
    ],
)
def test_the_table_of_limits_holds(
    window: int, reserve: int, model: str, cap: int | None, expected: int
) -> None:
    assert _threshold(window, model, reserve, threshold_tokens=cap).tokens == expected


@pytest.mark.parametrize(
    ("window", "ratio", "tokens"),
    [(511_999, 0.75, 383_999), (512_000, 0.50, 256_000), (512_001, 0.50, 256_000)],
)
def test_windows_below_512000_are_filled_to_three_quarters(
    window: int, ratio: float, tokens: int
) -> None:
    result = _threshold(window)
    assert (result.ratio, result.tokens) == (ratio, tokens)


def test_the_declared_window_decides_on_the_raise_and_not_the_usable_one() -> None:
    assert _threshold(512_000, reserved_output=100_000).ratio == 0.50


@pytest.mark.parametrize("power", range(1, 22))
@pytest.mark.parametrize("offset", [-1, 0, 1])
def test_the_threshold_lies_below_windows_around_powers_of_two(power: int, offset: int) -> None:
    window = 2**power + offset
    if window < 2:
        with pytest.raises(NoUsableWindowError):
            _threshold(window)
        return
    assert 1 <= _threshold(window).tokens < window


@pytest.mark.parametrize(("window", "tokens"), [(63_999, 54_399), (64_000, 54_400)])
def test_the_floor_leaves_room_in_small_windows(window: int, tokens: int) -> None:
    assert _threshold(window).tokens == tokens


@pytest.mark.parametrize("ratio", [0.05, 0.06])
def test_a_low_share_of_a_large_window_is_lifted_to_64000_tokens(ratio: float) -> None:
    result = _threshold(1_000_000, threshold=ratio)
    assert result.tokens == 64_000
    assert result.ratio == ratio


@given(
    window=st.integers(min_value=2, max_value=4_000_000),
    reserve=st.integers(min_value=0, max_value=200_000),
    ratio=st.floats(min_value=0.05, max_value=0.95),
    cap=st.none() | st.integers(min_value=1000, max_value=1_000_000),
    model=st.sampled_from(["", "m", "o3", "mine-large", "gpt-5.3-codex-spark"]),
)
def test_the_threshold_is_positive_and_below_the_usable_window_whatever_is_set(
    window: int, reserve: int, ratio: float, cap: int | None, model: str
) -> None:
    result = _threshold(
        window + reserve,
        model,
        reserve,
        threshold=ratio,
        threshold_tokens=cap,
        model_thresholds={"mine": ratio},
    )
    assert 1 <= result.tokens < window
    assert cap is None or result.tokens <= cap


@pytest.mark.parametrize("reserve", [-1, 7_999, 8_000, 9_000])
def test_a_reserve_that_leaves_nothing_is_refused_with_both_numbers(reserve: int) -> None:
    with pytest.raises(NoUsableWindowError) as caught:
        _threshold(8_000, reserved_output=reserve)
    assert (caught.value.context_window, caught.value.reserved_output) == (8_000, reserve)


@pytest.mark.parametrize(
    "model",
    [
        "o1",
        "o3",
        "openai/o3-2025-04-16",
        "o3:free",
        "my_o1_deployment",
        "o4-mini-high",
        "deepseek/deepseek-reasoner",
        "Qwen3-235B-A22B-Thinking-2507",
        "claude-3-7-sonnet-thinking",
    ],
)
def test_models_that_reason_first_are_filled_to_85_percent(model: str) -> None:
    assert _threshold(1_000_000, model).ratio == 0.85
    assert reasons_first(model)


@pytest.mark.parametrize(
    "model",
    ["", "olmo3", "o30", "o3x", "gpt-4o1", "o4", "o4-minimal", "thinking", "x-thinkingcap"],
)
def test_built_in_keys_match_only_at_name_borders(model: str) -> None:
    assert _threshold(1_000_000, model).ratio == 0.50
    assert not reasons_first(model)


def test_a_built_in_key_of_a_model_that_answers_at_once_says_nothing_of_reasoning() -> None:
    assert _threshold(1_000_000, "gpt-5.3-codex-spark").ratio == 0.70
    assert not reasons_first("gpt-5.3-codex-spark")


def test_a_users_key_matches_anywhere_and_in_any_case() -> None:
    assert _threshold(128_000, "OLMo3-32B", model_thresholds={"lmo3": 0.60}).ratio == 0.60


def test_a_users_key_wins_over_a_built_in_key_of_the_same_length() -> None:
    assert _threshold(128_000, "o3", model_thresholds={"o3": 0.60}).ratio == 0.60


def test_a_longer_built_in_key_wins_over_a_users_shorter_one() -> None:
    given = {"spark": 0.40}
    assert _threshold(128_000, "gpt-5.3-codex-spark", model_thresholds=given).ratio == 0.70


def test_the_longest_of_several_keys_wins_whatever_their_order() -> None:
    keys = {"gpt": 0.30, "gpt-5-mini": 0.40, "gpt-5": 0.60}
    for order in (keys, dict(reversed(keys.items()))):
        assert _threshold(128_000, "gpt-5-mini", model_thresholds=order).ratio == 0.40


def test_the_first_of_two_equally_long_keys_wins() -> None:
    keys = {"5-m": 0.30, "gpt": 0.60}
    assert _threshold(128_000, "gpt-5-mini", model_thresholds=keys).ratio == 0.30


def test_a_matching_key_is_not_raised_for_a_small_window() -> None:
    result = _threshold(256_000, "small", model_thresholds={"small": 0.40})
    assert (result.tokens, result.ratio) == (102_400, 0.40)


def test_a_threshold_above_three_quarters_is_not_lowered_for_a_small_window() -> None:
    assert _threshold(128_000, threshold=0.90).tokens == 115_200


def test_a_cap_above_the_threshold_changes_nothing() -> None:
    assert _threshold(128_000, threshold_tokens=96_001) == _threshold(128_000)


@pytest.mark.parametrize(
    ("window", "model", "given", "words"),
    [
        (1_000_000, "m", {}, "0.5 of 1,000,000 usable tokens (threshold)"),
        (128_000, "m", {}, "threshold raised, window below 512,000"),
        (128_000, "o3", {}, "built-in key 'o3'"),
        (128_000, "o3", {"model_thresholds": {"o3": 0.6}}, "model_thresholds key 'o3'"),
        (64_000, "m", {}, "floor of 54,400 tokens, above 0.75"),
        (200_000, "m", {"threshold_tokens": 5000}, "cap of 5,000 tokens (threshold_tokens)"),
    ],
)
def test_the_reason_says_how_the_number_came_about(
    window: int, model: str, given: dict[str, Any], words: str
) -> None:
    assert words in _threshold(window, model, **given).reason
