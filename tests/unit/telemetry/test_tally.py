"""What tries come to in figures."""

from __future__ import annotations

from dataclasses import replace

from storage.measures import Try
from workers.telemetry.tally import ANSWER_BOUNDS_MS, TRY_BOUNDS_MS, Figure, tally

GOOD = Try(1, "micro", "micro", "absorbed", None, "m", 1, 900, 100, 5000, 4200, 480, 400)


def test_a_good_pass_counts_once_everywhere() -> None:
    assert tally([GOOD]) == {
        (Figure.TRIES, ("micro", "micro", "absorbed")): 1,
        (Figure.FREED_TOKENS, ("micro",)): 800,
        (Figure.TRY_CLASSES, ("micro", "5")): 1,
        (Figure.TRY_MS, ("micro",)): 480,
        (Figure.REQUESTS, ("m",)): 1,
        (Figure.PROMPT_TOKENS, ("m",)): 900,
        (Figure.COMPLETION_TOKENS, ("m",)): 100,
        (Figure.ANSWER_CLASSES, ("m", "2")): 1,
        (Figure.ANSWER_MS, ("m",)): 400,
    }


def test_a_marker_that_is_larger_than_what_it_replaced_is_an_addition() -> None:
    grown = tally([replace(GOOD, tokens_after=5100)])
    assert grown[Figure.ADDED_TOKENS, ("micro",)] == 100
    assert (Figure.FREED_TOKENS, ("micro",)) not in grown


def test_a_failed_pass_counts_against_its_model() -> None:
    failed = replace(GOOD, outcome="failed", error_class="auth", tokens_after=5000, model_ms=0)
    counts = tally([failed])
    assert counts[Figure.TRY_ERRORS, ("micro", "auth")] == 1
    assert counts[Figure.MODEL_ERRORS, ("m", "auth")] == 1
    assert (Figure.ANSWER_MS, ("m",)) not in counts


def test_a_try_that_asked_nobody_is_no_try_of_a_model() -> None:
    waited = replace(GOOD, outcome="failed", error_class="breaker_open", requests=0)
    counts = tally([waited])
    assert counts[Figure.TRY_ERRORS, ("micro", "breaker_open")] == 1
    assert not any("m" in labels for _, labels in counts)


def test_a_bound_belongs_to_its_class_and_what_is_longer_to_the_last_one() -> None:
    counts = tally([replace(GOOD, total_ms=ms) for ms in (10, 11, TRY_BOUNDS_MS[-1] + 1)])
    classes = {labels[1] for name, labels in counts if name == Figure.TRY_CLASSES}
    assert classes == {"0", "1", str(len(TRY_BOUNDS_MS))}


def test_bounds_grow() -> None:
    assert list(TRY_BOUNDS_MS) == sorted(set(TRY_BOUNDS_MS))
    assert list(ANSWER_BOUNDS_MS) == sorted(set(ANSWER_BOUNDS_MS))
