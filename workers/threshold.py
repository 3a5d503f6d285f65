"""The threshold rule: how many live tokens make a conversation due (ENGINE.md §4)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from storage.errors import InputError
from workers.settings import CompressionSettings

SMALL_WINDOW_TOKENS = 512_000
SMALL_WINDOW_RATIO = 0.75
FLOOR_TOKENS = 64_000
FLOOR_RATIO = 0.85

# Models that reason before they answer spend output on it, so they may fill up further.
_REASONING = ("o1", "o3", "o4-mini", "deepseek-reasoner", "-thinking")
_REASONING_RATIO = 0.85
_BUILT_IN = (
    *((key, _REASONING_RATIO) for key in _REASONING),
    ("gpt-5.3-codex-spark", 0.70),
)


@dataclass(frozen=True, slots=True)
class Threshold:
    """Where compaction starts: at `tokens` live tokens, always below the usable window.

    `ratio` is the share of the usable window that was aimed at, before floor and cap. `reason`
    tells in words how the number came about.
    """

    tokens: int
    ratio: float
    reason: str


class NoUsableWindowError(InputError):
    """The window leaves no room for a conversation. Correct the session's window or reserve."""

    def __init__(self, context_window: int, reserved_output: int) -> None:
        super().__init__(
            f"a window of {context_window:,} tokens with {reserved_output:,} reserved for output "
            "leaves no room for a conversation; correct the window or the reserve"
        )
        self.context_window = context_window
        self.reserved_output = reserved_output


def threshold_tokens(
    *,
    context_window: int,
    model: str,
    reserved_output: int = 0,
    settings: CompressionSettings,
) -> Threshold:
    """Return the threshold of a session (ENGINE.md §4).

    `context_window` and `reserved_output` are tokens; `model` is the name as the gateway gave it,
    "" when unknown. Raises `NoUsableWindowError` when fewer than two tokens are usable or the
    reserve is negative.
    """
    window = context_window - reserved_output
    if window < 2 or reserved_output < 0:
        raise NoUsableWindowError(context_window, reserved_output)
    ratio, why = _ratio(context_window, model, settings)
    share = int(window * ratio)
    floor = min(FLOOR_TOKENS, int(window * FLOOR_RATIO))
    tokens = share
    reason = f"{ratio:g} of {window:,} usable tokens ({why})"
    if floor > share:
        tokens = floor
        reason = f"floor of {floor:,} tokens, above {reason}"
    cap = settings.threshold_tokens
    if cap is not None and cap < tokens:
        tokens = cap
        reason = f"cap of {cap:,} tokens (threshold_tokens), below {reason}"
    return Threshold(tokens, ratio, reason)


def reasons_first(model: str) -> bool:
    """Whether `model` reasons before it answers, as far as its name tells (ENGINE.md §4)."""
    return any(stands_alone(key, model.casefold()) for key in _REASONING)


def _ratio(context_window: int, model: str, settings: CompressionSettings) -> tuple[float, str]:
    matches = list(_matches(model.casefold(), settings))
    if matches:
        # The first of equal length: a user's key goes before a built-in one.
        key, ratio, source = max(matches, key=lambda match: len(match[0]))
        return ratio, f"{source} key {key!r} matches the model"
    if context_window < SMALL_WINDOW_TOKENS and settings.threshold < SMALL_WINDOW_RATIO:
        return SMALL_WINDOW_RATIO, f"threshold raised, window below {SMALL_WINDOW_TOKENS:,}"
    return settings.threshold, "threshold"


def _matches(model: str, settings: CompressionSettings) -> Iterator[tuple[str, float, str]]:
    for key, ratio in settings.model_thresholds.items():
        if key.casefold() in model:
            yield key, ratio, "model_thresholds"
    for key, ratio in _BUILT_IN:
        if stands_alone(key, model):
            yield key, ratio, "built-in"


def stands_alone(key: str, model: str) -> bool:
    """True if `key` occurs in `model` between name borders: `o3` in `openai/o3-pro`, not `olmo3`.

    A border is where a letter or digit meets anything else, or the end of the name.
    """
    if key not in model:
        # Of most models none does, and every turn asks.
        return False
    left = r"(?<![^\W_])" if key[0].isalnum() else ""
    right = r"(?![^\W_])" if key[-1].isalnum() else ""
    return re.search(f"{left}{re.escape(key)}{right}", model) is not None
