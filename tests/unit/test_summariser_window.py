"""How much one request may hold, by the model's window."""

from __future__ import annotations

import pytest

from workers.summariser.passages import INPUT_CHARS, INSTRUCTION_TOKENS, input_chars


@pytest.mark.parametrize("window", [None, 128_000, 1_000_000])
def test_a_large_window_takes_the_whole_input(window: int | None) -> None:
    assert input_chars(window, 3_000) == INPUT_CHARS == 160_000


@pytest.mark.parametrize("window", [16_384, 32_768, 60_000])
def test_instructions_both_summaries_and_passages_fit_a_small_window(window: int) -> None:
    room = input_chars(window, 3_000)
    assert room < INPUT_CHARS
    assert room / 3 + INSTRUCTION_TOKENS + 2 * 3_000 <= window


@pytest.mark.parametrize("window", [1_024, 4_096, 8_192])
def test_a_request_always_holds_something(window: int) -> None:
    assert input_chars(window, 3_000) == window // 4 * 3
