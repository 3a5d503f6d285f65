"""The frame of a marker."""

from __future__ import annotations

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.conversation.markers import (
    CURRENT,
    FRAMES,
    Frame,
    frame,
    frame_tokens,
    is_marker_text,
    unframe,
)
from workers.conversation.tokens import estimate_message, estimate_text


@given(st.text())
def test_a_summary_comes_out_of_its_frame_as_it_went_in(summary: str) -> None:
    assert unframe(frame(summary)) == summary


@pytest.mark.parametrize("known", FRAMES, ids=lambda known: f"v{known.version}")
def test_every_released_version_is_recognised(known: Frame) -> None:
    text = known.put_on("## Goal\nFly")
    assert unframe(text) == "## Goal\nFly"
    assert is_marker_text(text)


def test_released_frames_stay_as_they_are() -> None:
    """Sessions out there wear them: add a version, never edit one."""
    prints = {f.version: sha256(f.put_on("").encode()).hexdigest()[:16] for f in FRAMES}
    assert prints == {1: "4227647192d5c827"}


def test_a_frame_is_recognised_after_an_export_trimmed_or_padded_it() -> None:
    assert unframe(f"\n  {frame('a')}\n\n") == "a"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Book a flight.",
        CURRENT.opening,
        CURRENT.closing,
        f"{CURRENT.opening}\n\n{CURRENT.closing}",
        f"{frame('a')} and more",
        f"please read: {frame('a')}",
    ],
)
def test_other_texts_are_no_markers(text: str) -> None:
    assert unframe(text) is None
    assert not is_marker_text(text)


@pytest.mark.parametrize("known", FRAMES, ids=lambda known: f"v{known.version}")
def test_the_fixed_lines_cost_at_most_200_tokens(known: Frame) -> None:
    assert estimate_text(known.opening) + estimate_text(known.closing) <= 200


def test_the_cost_of_a_marker_is_that_of_its_summary_and_its_frame() -> None:
    summary = "## Goal\nFly to Rome, cheaply."
    whole = estimate_message({"role": "user", "content": frame(summary)})
    assert abs(estimate_text(summary) + frame_tokens() - whole) <= 1


def test_the_frame_says_what_the_text_is_and_which_request_counts() -> None:
    opening, closing = CURRENT.opening, CURRENT.closing
    assert "reference only" in opening
    assert "history" in opening
    assert "newest user message" in closing
    assert "wherever it stands" in closing
