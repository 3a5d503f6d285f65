"""How large a batch summary is to become."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.batch.plan import summary_budget, verbatim_budget

TOKENS = st.integers(0, 2_000_000)


@pytest.mark.parametrize(
    ("middle", "window", "tokens"),
    [
        # A fifth of the middle, at most 10,000 and 5 % of the window.
        (30_000, 200_000, 6_000),
        (100_000, 1_000_000, 10_000),
        (100_000, 200_000, 10_000),
        (100_000, 128_000, 6_400),
        # Never below 2,000, not even in a window of which that is more than 5 %.
        (9_000, 200_000, 2_000),
        (30_000, 16_000, 2_000),
        # Unless that were more than half the middle.
        (4_000, 200_000, 2_000),
        (3_999, 200_000, 1_999),
        (500, 200_000, 250),
    ],
)
def test_the_budget_follows_the_middle_within_its_bounds(
    middle: int, window: int, tokens: int
) -> None:
    assert summary_budget(middle, window) == tokens


@given(middle=TOKENS, window=TOKENS)
def test_a_summary_is_never_more_than_half_of_what_it_replaces(middle: int, window: int) -> None:
    assert 1 <= summary_budget(middle, window) <= max(1, min(10_000, middle // 2))


@given(middle=TOKENS, more=TOKENS, window=TOKENS)
def test_a_larger_middle_never_gets_a_smaller_summary(middle: int, more: int, window: int) -> None:
    assert summary_budget(middle, window) <= summary_budget(middle + more, window)


@pytest.mark.parametrize(
    ("middle", "setting", "tokens"),
    [(60_000, 2_000, 2_000), (12_000, 2_000, 2_000), (6_000, 2_000, 1_000), (60_000, 0, 0)],
)
def test_user_messages_get_a_sixth_of_the_middle_at_most(
    middle: int, setting: int, tokens: int
) -> None:
    assert verbatim_budget(middle, setting) == tokens
