"""The threshold rule: at how many live tokens a conversation is compacted.

See docs/explanation/triggers.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from storage.conversations.sessions import SessionRecord
from storage.errors import InputError
from workers.conversation.regions import RegionRules
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
    """The size at which compaction starts: `tokens` live tokens, always below the usable window.

    `ratio` is the share of the usable window before floor and cap were applied. `reason` explains
    the number in words.
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
    """Return the threshold for a window and a model: a share of the usable window, not below the
    floor, not above the configured cap.

    `context_window` and `reserved_output` are tokens; `model` is the gateway's name for it, "" if
    unknown. Raises `NoUsableWindowError` if fewer than two tokens are usable or the reserve is
    negative.
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
    """Return whether `model` reasons before it answers, as far as its name shows."""
    return any(stands_alone(key, model.casefold()) for key in _REASONING)


def _ratio(context_window: int, model: str, settings: CompressionSettings) -> tuple[float, str]:
    matches = list(_matches(model.casefold(), settings))
    if matches:
        # Of keys of equal length the first wins, so a user's key beats a built-in one.
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
    """Return whether `key` occurs in `model` between name borders: `o3` in `openai/o3-pro`, but not
    in `olmo3`.

    A border is where a letter or digit meets anything else, or the end of the name.
    """
    if key not in model:
        # The usual case, and every turn asks.
        return False
    left = r"(?<![^\W_])" if key[0].isalnum() else ""
    right = r"(?![^\W_])" if key[-1].isalnum() else ""
    return re.search(f"{left}{re.escape(key)}{right}", model) is not None


_COMPACTED_BY_OPENAI = ("gpt-5.6",)


class ManagedBy(StrEnum):
    """The provider that compacts a session instead of us; None if there is none."""

    CODEX = "codex"
    """A Codex app server owns the thread. We do no automatic work; at most we emit a signal."""
    OPENAI = "openai"
    """OpenAI compacts on its side. Our batch pass at our threshold is a backstop."""


def managed_by(session: SessionRecord, settings: CompressionSettings) -> ManagedBy | None:
    """Return the provider that now compacts the session instead of us.

    OpenAI does so only while that is configured and only for models that support it, even if the
    session was opened with it. A value written by a newer version counts as None.
    """
    match session.managed_by:
        case ManagedBy.CODEX:
            return ManagedBy.CODEX
        case ManagedBy.OPENAI if openai_compacts(session.model, settings):
            return ManagedBy.OPENAI
        case _:
            return None


def openai_compacts(model: str, settings: CompressionSettings) -> bool:
    """Return whether compaction on OpenAI's side is configured and `model` supports it: the GPT-5.6
    family."""
    return settings.codex_responses_native and any(
        stands_alone(family, model.casefold()) for family in _COMPACTED_BY_OPENAI
    )


DEFAULT_WINDOW = 128_000
"""Context window in tokens of a session whose gateway named none: the smallest of recent models."""

HYGIENE_RATIO = 0.85
"""Share of the usable window at which a session is compacted before its next request."""

SERVER_LEAD_TOKENS = 8_192
"""Tokens below our threshold at which OpenAI compacts on its side, so that it acts first."""

LEAST_SERVER_THRESHOLD = 1_000


def session_window(session: SessionRecord) -> int:
    """Return the session's context window in tokens, the reserve for answers included.

    A smaller window that the provider reported in an error takes precedence over the gateway's.
    """
    given = session.context_window or DEFAULT_WINDOW
    return given if session.declared_window is None else min(given, session.declared_window)


def usable_window(session: SessionRecord) -> int:
    """Return the tokens of the window that a request may fill, the reserve for answers excluded."""
    return session_window(session) - _reserve(session)


def session_threshold(session: SessionRecord, settings: CompressionSettings) -> Threshold:
    """Return the session's threshold. Raises `NoUsableWindowError`."""
    return threshold_tokens(
        context_window=session_window(session),
        model=session.model,
        reserved_output=_reserve(session),
        settings=settings,
    )


def hygiene_limit(session: SessionRecord, threshold: Threshold) -> int:
    """Return the tokens at which a session is compacted before its next request is made: 85 % of
    the usable window, or the threshold if that is higher."""
    return max(int(usable_window(session) * HYGIENE_RATIO), threshold.tokens)


def server_threshold(
    session: SessionRecord, threshold: Threshold, settings: CompressionSettings
) -> int | None:
    """Return the threshold at which OpenAI is asked to compact on its side.

    It lies below ours, so that the server acts first. None if that is not configured, the model
    does not support it, or our threshold leaves no room below it.
    """
    if not openai_compacts(session.model, settings):
        return None
    tokens = threshold.tokens - SERVER_LEAD_TOKENS
    if settings.codex_responses_compact_threshold is not None:
        tokens = min(tokens, settings.codex_responses_compact_threshold)
    return tokens if tokens >= LEAST_SERVER_THRESHOLD else None


def region_rules(threshold: Threshold, settings: CompressionSettings) -> RegionRules:
    """Return the sizes of head and tail for a threshold (see docs/explanation/regions.md)."""
    return RegionRules(
        protect_first_n=settings.protect_first_n,
        protect_last_n=settings.protect_last_n,
        min_tail_user_messages=settings.min_tail_user_messages,
        tail_budget=int(threshold.tokens * settings.target_ratio),
    )


def _reserve(session: SessionRecord) -> int:
    """Return the tokens of the window that are kept for answers.

    The reserve was chosen for the gateway's window. Of a much smaller one that the provider
    reported, it might leave nothing, and the session could never be compacted.
    """
    if session_window(session) == (session.context_window or DEFAULT_WINDOW):
        return session.reserved_output
    return min(session.reserved_output, session_window(session) // 2)
