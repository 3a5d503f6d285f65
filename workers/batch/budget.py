"""How large a batch summary is to become (ENGINE.md §6.2)."""

from __future__ import annotations

LEAST_TOKENS = 2_000
MOST_TOKENS = 10_000
SHARE_OF_MIDDLE = 0.20
SHARE_OF_WINDOW = 0.05
VERBATIM_SHARE = 6
"""The verbatim part takes a sixth of the middle at most (ENGINE.md §6.5)."""

FEWEST_TOKENS = 400
"""A middle below this is too small: the frame and the headings alone take a third of it."""


def summary_budget(middle_tokens: int, window: int) -> int:
    """Tokens that the prompt asks for, never more than half the middle."""
    share = int(middle_tokens * SHARE_OF_MIDDLE)
    wanted = max(LEAST_TOKENS, min(share, MOST_TOKENS, int(window * SHARE_OF_WINDOW)))
    return max(1, min(wanted, middle_tokens // 2))


def verbatim_budget(middle_tokens: int, setting: int) -> int:
    """Tokens for covered user messages word for word."""
    return min(setting, middle_tokens // VERBATIM_SHARE)
