"""The result of a request, in figures and in words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from producers import ApiErrorKind, Compaction, CompressionStuck, Status, Suppression
from producers.measure import Size
from storage.guards import GuardName

SIZE = Size(
    tokens=9000, messages=40, threshold=4000, hygiene=8000, window=10_000, message_limit=5000
)

NOW = Compaction(
    Status.CHANGED,
    None,
    SIZE,
    messages_before=100,
    messages_after=40,
    tokens_before=9000,
    tokens_after=4000,
    passes=1,
    changed=True,
    outcome="compacted",
)


@pytest.mark.parametrize(
    ("rows", "tokens", "smaller"),
    [(99, 9000, True), (100, 8549, True), (100, 8550, False), (100, 9000, False), (101, 1, True)],
)
def test_progress_is_fewer_rows_or_more_than_a_twentieth_of_the_tokens(
    rows: int, tokens: int, smaller: bool
) -> None:
    done = replace(NOW, messages_after=rows, tokens_after=tokens)
    assert done.smaller is smaller


def test_what_others_changed_is_no_progress() -> None:
    assert not replace(NOW, changed=False).smaller


def test_two_passes_in_a_row_count_from_the_first_to_the_last() -> None:
    second = replace(
        NOW, messages_before=40, messages_after=30, tokens_before=4000, tokens_after=3000
    )
    both = NOW.then(second)
    assert (both.messages_before, both.messages_after) == (100, 30)
    assert (both.tokens_before, both.tokens_after, both.passes) == (9000, 3000, 2)


def test_a_request_without_a_result_does_not_take_from_what_was_done() -> None:
    hold = Suppression("cooldown after a failure", GuardName.COOLDOWN, 5000)
    nothing = replace(
        NOW,
        status=Status.SUPPRESSED,
        passes=0,
        changed=False,
        messages_before=40,
        tokens_before=4000,
        outcome=None,
        suppressed_by=hold,
        left_ms=5000,
    )
    both = NOW.then(nothing)
    assert (both.status, both.passes, both.changed, both.suppressed_by) == (
        Status.SUPPRESSED,
        1,
        True,
        hold,
    )
    assert (both.messages_before, both.messages_after, both.outcome) == (100, 40, "compacted")
    assert nothing.then(NOW) == NOW


@pytest.mark.parametrize(
    ("status", "facts", "words"),
    [
        (Status.NOT_NEEDED, {}, "the session is below its limits"),
        (Status.CHANGED, {}, "the session was compacted (compacted)"),
        (Status.UNCHANGED, {"outcome": "nothing_due"}, "nothing could be compacted (nothing_due)"),
        (
            Status.FAILED,
            {"outcome": "failed", "error_class": "auth"},
            "the pass failed and the session is as it was (auth)",
        ),
        (
            Status.POSTPONED,
            {"left_ms": 600_000, "error_class": "breaker_open"},
            "the pass waits for 600 s after breaker_open",
        ),
        (
            Status.SUPPRESSED,
            {
                "suppressed_by": Suppression("cooldown", GuardName.COOLDOWN, 1_234_000),
                "left_ms": 1_234_000,
            },
            "suppressed for 1,234 s: cooldown",
        ),
        (
            Status.SUPPRESSED,
            {"suppressed_by": Suppression("switched off")},
            "suppressed: switched off",
        ),
        (Status.SUPPRESSED, {}, "suppressed by a guard"),
    ],
)
def test_it_says_why_in_words(status: Status, facts: dict[str, object], words: str) -> None:
    assert replace(NOW, status=status, **facts).reason == words  # type: ignore[arg-type]


def test_every_status_has_words() -> None:
    assert all(replace(NOW, status=status).reason for status in Status)


def test_a_stuck_session_says_so_to_gateway_and_user() -> None:
    stuck = CompressionStuck("s", replace(NOW, tokens_after=8900))
    assert "session 's': 8,900 of 9,000 tokens are left" in str(stuck)
    assert "start a new one" in stuck.sentence
    assert stuck.compaction.tokens_after == 8900
    assert (stuck.tokens, stuck.threshold) == (9000, 4000)


@pytest.mark.parametrize(
    ("status", "tokens", "messages", "go"),
    [
        (Status.NOT_NEEDED, 3999, 40, True),
        (Status.CHANGED, 3999, 40, True),
        (Status.PENDING, 3999, 40, True),
        (Status.PENDING, 4000, 40, False),
        (Status.PENDING, 10, 5000, False),
        (Status.POSTPONED, 4000, 40, True),
        (Status.SUPPRESSED, 10_000, 40, True),
        (Status.SUPPRESSED, 10_001, 40, False),
        (Status.SPENT, 10, 5000, True),
        (Status.FAILED, 10_001, 40, False),
    ],
)
def test_a_request_may_go_below_the_limits_or_where_it_fits_and_no_pass_is_to_come(
    status: Status, tokens: int, messages: int, go: bool
) -> None:
    size = replace(SIZE, tokens=tokens, messages=messages)
    assert replace(NOW, status=status, size=size).go is go


def test_a_request_is_sent_again_only_after_a_recognised_error_and_with_less() -> None:
    kind = ApiErrorKind.CONTEXT_OVERFLOW
    assert not NOW.retry
    assert replace(NOW, kind=kind).retry
    assert not replace(NOW, kind=kind, changed=False).retry
    assert replace(NOW, kind=kind, changed=False, max_output=100).retry


def test_figures_of_the_size_are_read_from_the_result() -> None:
    assert (NOW.tokens, NOW.threshold, NOW.window) == (9000, 4000, 10_000)
    assert NOW.over_threshold
    assert NOW.fits
