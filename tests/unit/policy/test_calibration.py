"""Calibration learns from reports what a provider counts, and nothing from nonsense."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tiers import examples
from workers.policy.calibration import LEAST_RATIO, MOST_RATIO, Calibration

WINDOW = 200_000
LARGEST_VIEW = 100_000
KEPT = 0.3
"""Share of a view that is left by a compaction."""

additives = st.integers(0, 40_000)
ratios = st.floats(0.55, 1.9)
seeds = st.integers(0, 2**32)


def views(rng: Random, *, begin: int = 50, reports: int = 120) -> Iterator[int]:
    """Sizes of a view that grows turn by turn and is compacted when it is large."""
    view, step = begin, rng.choice([800, 3_000, 12_000])
    for _ in range(reports):
        yield view
        view += rng.randint(step // 10, step)
        if view > LARGEST_VIEW:
            view = int(view * KEPT)


def taught(
    additive: int,
    ratio: float,
    rng: Random,
    *,
    noise: float = 0.0,
    wrong: float = 0.0,
    begun: Calibration | None = None,
) -> Calibration:
    """Return what the reports of a session teach. Each is off by up to `noise` of itself; a share
    of `wrong` counts half, twice or three times as much."""
    learned = begun or Calibration()
    for view in views(rng):
        counted = (additive + ratio * view) * (1 + rng.uniform(-noise, noise))
        if rng.random() < wrong:
            counted *= rng.choice([0.5, 2, 3])
        learned = learned.updated(view, round(counted), window=WINDOW)
    return learned


def farthest_off(learned: Calibration, additive: int, ratio: float) -> float:
    """Return the largest error of an estimate over the sizes that the view has between
    compactions."""
    return max(
        abs(learned.estimate(view) / (additive + ratio * view) - 1)
        for view in range(int(LARGEST_VIEW * KEPT), LARGEST_VIEW, 1_000)
    )


def test_before_any_report_an_estimate_is_ours() -> None:
    fresh = Calibration()
    assert [fresh.estimate(tokens) for tokens in (0, 1, 12_345)] == [0, 1, 12_345]


def test_of_the_first_report_what_is_more_than_ours_is_additive() -> None:
    first = Calibration().updated(10_000, 32_000, window=WINDOW)
    assert (first.additive, first.ratio, first.samples) == (22_000, 1.0, 1)
    assert first.estimate(10_000) == 32_000


@pytest.mark.parametrize(("counted", "ratio"), [(8_000, 0.8), (5_000, 0.5), (3_000, 0.5)])
def test_of_a_first_report_of_less_than_ours_the_ratio_takes_it(counted: int, ratio: float) -> None:
    first = Calibration().updated(10_000, counted, window=WINDOW)
    assert (first.additive, first.ratio) == (0, ratio)


def test_the_additive_part_never_exceeds_the_window() -> None:
    first = Calibration().updated(60_000, 150_000, window=64_000)
    assert (first.additive, first.ratio) == (64_000, 1.0)


@pytest.mark.parametrize(
    ("view", "counted"),
    [
        (10_000, 0),
        (10_000, -1),
        (0, 0),
        (-1, 10_000),
        (10_000, 2_499),  # what a prompt cache served is left out
        (10_000, 20_000 + WINDOW + 1),
        (0, WINDOW + 1),
        (100, 10**12),
    ],
)
def test_a_zero_or_nonsense_report_changes_nothing(view: int, counted: int) -> None:
    for former in (Calibration(), taught(20_000, 1.2, Random(1))):
        assert former.updated(view, counted, window=WINDOW) is former


@pytest.mark.parametrize(("view", "counted"), [(10_000, 2_500), (10_000, 220_000), (0, 1)])
def test_the_least_and_the_most_that_makes_sense_is_taken_in(view: int, counted: int) -> None:
    assert Calibration().updated(view, counted, window=WINDOW).samples == 1


@given(additives, ratios, seeds)
def test_both_parts_are_found_where_a_session_grows_and_is_compacted(
    additive: int, ratio: float, seed: int
) -> None:
    learned = taught(additive, ratio, Random(seed))
    assert learned.ratio == pytest.approx(ratio, rel=0.05)
    assert learned.additive == pytest.approx(additive, rel=0.05, abs=300)
    assert farthest_off(learned, additive, ratio) < 0.02


@given(st.integers(0, 500), st.floats(LEAST_RATIO, MOST_RATIO), seeds)
@examples(100, derandomize=True)
def test_at_the_limits_of_both_parts_noise_leaves_every_estimate_within_three_percent(
    additive: int, ratio: float, seed: int
) -> None:
    assert farthest_off(taught(additive, ratio, Random(seed), noise=0.02), additive, ratio) < 0.03


@given(additives, ratios, seeds)
@examples(100, derandomize=True)
def test_noise_of_two_percent_leaves_every_estimate_within_five(
    additive: int, ratio: float, seed: int
) -> None:
    assert farthest_off(taught(additive, ratio, Random(seed), noise=0.02), additive, ratio) < 0.05


@given(additives, ratios, seeds)
@examples(100, derandomize=True)
def test_one_wrong_report_in_twenty_leaves_every_estimate_within_ten_percent(
    additive: int, ratio: float, seed: int
) -> None:
    learned = taught(additive, ratio, Random(seed), noise=0.02, wrong=0.05)
    assert farthest_off(learned, additive, ratio) < 0.10


@pytest.mark.parametrize("seed", [276, 404, 681])
def test_a_wrong_report_at_the_least_ratio_leaves_no_lasting_mark(seed: int) -> None:
    learned = taught(0, LEAST_RATIO, Random(seed), noise=0.02, wrong=0.05)
    assert farthest_off(learned, 0, LEAST_RATIO) < 0.05


@pytest.mark.parametrize("times", [0.5, 2, 3])
@pytest.mark.parametrize("view", [500, 20_000, 90_000])
def test_one_wrong_report_hardly_moves_what_was_learned(times: float, view: int) -> None:
    learned = taught(20_000, 1.2, Random(2), noise=0.01)
    misled = learned.updated(view, round(times * learned.estimate(view)), window=WINDOW)
    assert farthest_off(misled, 20_000, 1.2) < 0.03


def test_a_tiny_view_sets_the_additive_part_and_leaves_the_ratio_alone() -> None:
    learned = taught(20_000, 1.2, Random(3))
    for view in (0, 1, 7, 60):
        learned = learned.updated(view, 20_000, window=WINDOW)
    assert learned.ratio == pytest.approx(1.2, rel=0.02)
    assert learned.additive == pytest.approx(20_000, rel=0.02)


def test_views_of_one_size_never_spoil_what_movement_taught() -> None:
    learned = taught(20_000, 1.2, Random(4))
    rng = Random(5)
    for _ in range(2_000):
        view = 60_000 + rng.randint(-500, 500)
        counted = round((20_000 + 1.2 * view) * rng.uniform(0.98, 1.02))
        learned = learned.updated(view, counted, window=WINDOW)
    assert farthest_off(learned, 20_000, 1.2) < 0.05


def test_new_tools_are_believed_at_the_third_report() -> None:
    learned = taught(10_000, 1.1, Random(6), noise=0.01)
    for view in (40_000, 42_000, 45_000):
        learned = learned.updated(view, round(35_000 + 1.1 * view), window=WINDOW)
    assert learned.estimate(46_000) == pytest.approx(35_000 + 1.1 * 46_000, rel=0.02)


def test_reports_that_err_to_both_sides_in_turn_are_noise() -> None:
    learned = taught(10_000, 1.1, Random(7))
    for number, view in enumerate(range(40_000, 60_000, 1_000)):
        counted = (10_000 + 1.1 * view) * (1.15 if number % 2 else 0.87)
        learned = learned.updated(view, round(counted), window=WINDOW)
        assert farthest_off(learned, 10_000, 1.1) < 0.03


def test_text_of_another_kind_is_followed() -> None:
    rng = Random(8)
    learned = taught(10_000, 1.0, rng, noise=0.02)
    learned = taught(10_000, 1.4, rng, noise=0.02, begun=learned)
    assert farthest_off(learned, 10_000, 1.4) < 0.05


def test_a_slow_change_of_what_is_written_is_followed() -> None:
    rng = Random(9)
    learned = taught(10_000, 1.0, rng, noise=0.02)
    for step, view in enumerate(views(rng, reports=200)):
        counted = round(10_000 + (1.0 + 0.001 * step) * view)
        learned = learned.updated(view, counted, window=WINDOW)
    assert farthest_off(learned, 10_000, 1.2) < 0.04


reports = st.lists(
    st.tuples(st.integers(-10, 10**9), st.integers(-10, 10**9) | st.integers(0, 300_000)),
    max_size=40,
)


@given(reports, st.integers(2, 10**9))
def test_whatever_is_reported_both_parts_stay_within_their_limits(
    reports: list[tuple[int, int]], window: int
) -> None:
    learned = Calibration()
    for view, counted in reports:
        learned = learned.updated(view, counted, window=window)
        assert LEAST_RATIO <= learned.ratio <= MOST_RATIO
        assert 0 <= learned.additive <= window
        assert Calibration.of(learned.dump()) == learned


@given(additives, ratios, seeds)
@examples(20)
def test_it_is_the_same_after_it_was_stored(additive: int, ratio: float, seed: int) -> None:
    learned = taught(additive, ratio, Random(seed), noise=0.05, wrong=0.1)
    assert Calibration.of(learned.dump()) == learned


STORED = json.loads(taught(20_000, 1.2, Random(8)).dump())


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "{}",
        "[]",
        "nonsense",
        json.dumps({**STORED, "ratio": 2.01}),
        json.dumps({**STORED, "ratio": float("nan")}),
        json.dumps({**STORED, "additive": -1}),
        json.dumps({**STORED, "additive": float("inf")}),
        json.dumps({**STORED, "doubt": [1, 2]}),
        json.dumps({**STORED, "doubt": [0, 0, 0]}),
        json.dumps({**STORED, "doubt": "none"}),
        json.dumps({name: value for name, value in STORED.items() if name != "samples"}),
    ],
)
def test_what_cannot_be_read_is_a_fresh_start(text: str | None) -> None:
    assert Calibration.of(text) == Calibration()


def test_what_a_newer_version_adds_is_passed_over() -> None:
    stored = taught(20_000, 1.2, Random(8))
    assert Calibration.of(json.dumps({**json.loads(stored.dump()), "more": 1})) == stored
