"""Numbers that gateways give of a model: its window and what of it is kept for answers."""

from __future__ import annotations

MOST_TOKENS = 1_000_000_000
"""More than any window. A number beyond it was meant as something else."""

_FEWEST_USABLE = 2
"""A threshold lies at one token at least and below the window (ENGINE.md §4)."""


class WindowError(ValueError):
    """A window or a reserve cannot be used. Nothing was stored.

    `field` is the argument at fault.
    """

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field


def check_window(*, context_window: int | None, reserved_output: int | None) -> None:
    """Check a model's window and reserve, both in tokens; None is not known and passes.

    Raises `WindowError` for what is no whole number in range, and for a reserve that leaves
    nothing of a window that is given with it.
    """
    _check_count("context_window", context_window, least=1)
    _check_count("reserved_output", reserved_output, least=0)
    if context_window is None or reserved_output is None:
        return
    if context_window - reserved_output < _FEWEST_USABLE:
        raise WindowError(
            "reserved_output",
            f"{reserved_output:,} tokens kept for answers leave nothing of a window of "
            f"{context_window:,}",
        )


def _check_count(field: str, tokens: object, *, least: int) -> None:
    if tokens is None:
        return
    if isinstance(tokens, bool) or not isinstance(tokens, int):
        raise WindowError(field, f"is a {type(tokens).__name__}, must be a whole number of tokens")
    if not least <= tokens <= MOST_TOKENS:
        raise WindowError(
            field,
            f"must be from {least} to {MOST_TOKENS:,} tokens; leave it out where it is not known",
        )
