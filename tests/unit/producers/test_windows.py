"""Windows and reserves that gateways may give."""

from __future__ import annotations

from typing import Any

import pytest

from producers.arguments import MAX_TOKENS, WindowError, check_window


@pytest.mark.parametrize(
    ("window", "reserve"),
    [(None, None), (None, 16_384), (2, None), (MAX_TOKENS, 0), (8_192, 8_190)],
)
def test_windows_with_room_and_those_left_out_pass(window: int | None, reserve: int | None) -> None:
    check_window(context_window=window, reserved_output=reserve)


@pytest.mark.parametrize(
    ("window", "reserve", "field"),
    [
        (0, None, "context_window"),
        (-5, None, "context_window"),
        (10**30, None, "context_window"),
        ("128k", None, "context_window"),
        (1.5, None, "context_window"),
        (True, None, "context_window"),
        (None, -1, "reserved_output"),
        (None, 10**30, "reserved_output"),
        (8_192, 8_191, "reserved_output"),
        (1, 0, "reserved_output"),
    ],
)
def test_what_is_no_room_for_a_conversation_is_refused_by_its_argument(
    window: Any, reserve: Any, field: str
) -> None:
    with pytest.raises(WindowError, match=f"^{field}: ") as refused:
        check_window(context_window=window, reserved_output=reserve)
    assert refused.value.field == field
