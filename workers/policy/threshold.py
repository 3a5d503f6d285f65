"""The threshold rule: how many live tokens make a conversation due (ENGINE.md §4)."""

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
    """Return whether `model` reasons before it answers, as far as its name tells (ENGINE.md §4)."""
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


_COMPACTED_BY_OPENAI = ("gpt-5.6",)


class ManagedBy(StrEnum):
    """What a session's `managed_by` says, beside None for nobody."""

    CODEX = "codex"
    """A Codex app server owns the thread. No automatic work of ours, at most a signal."""
    OPENAI = "openai"
    """OpenAI compacts on its side. Ours is the batch pass at our threshold, as a backstop."""


def managed_by(session: SessionRecord, settings: CompressionSettings) -> ManagedBy | None:
    """Return who compacts the session instead of us, now.

    OpenAI does so only while it is configured and for models that have it, whatever the session
    was opened with. What a newer version wrote there counts as nobody.
    """
    match session.managed_by:
        case ManagedBy.CODEX:
            return ManagedBy.CODEX
        case ManagedBy.OPENAI if openai_compacts(session.model, settings):
            return ManagedBy.OPENAI
        case _:
            return None


def openai_compacts(model: str, settings: CompressionSettings) -> bool:
    """Return whether compaction on OpenAI's side is configured and `model` has it: the GPT-5.6
    family."""
    return settings.codex_responses_native and any(
        stands_alone(family, model.casefold()) for family in _COMPACTED_BY_OPENAI
    )


DEFAULT_WINDOW = 128_000
"""Context window in tokens of a session whose gateway named none: the smallest that models of
the last years have."""

HYGIENE_RATIO = 0.85
"""Share of the usable window at which the gateway's door is closed (ENGINE.md §9, row 3)."""

SERVER_LEAD_TOKENS = 8_192
"""How far below our threshold a provider compacts on its side (ENGINE.md §9, row 18)."""

LEAST_SERVER_THRESHOLD = 1_000


def session_window(session: SessionRecord) -> int:
    """Return the session's context window in tokens, the reserve for answers included.

    A smaller one that the provider told of in an error goes before the gateway's.
    """
    given = session.context_window or DEFAULT_WINDOW
    return given if session.declared_window is None else min(given, session.declared_window)


def usable_window(session: SessionRecord) -> int:
    """Return the part of the window that a request may fill: the `window` of ENGINE.md §4."""
    return session_window(session) - _reserve(session)


def session_threshold(session: SessionRecord, settings: CompressionSettings) -> Threshold:
    """Return the session's threshold (ENGINE.md §4). Raises `NoUsableWindowError`."""
    return threshold_tokens(
        context_window=session_window(session),
        model=session.model,
        reserved_output=_reserve(session),
        settings=settings,
    )


def hygiene_limit(session: SessionRecord, threshold: Threshold) -> int:
    """Return tokens at which a session is compacted before its next request is made (ENGINE.md §9,
    row 3): 85 % of the usable window, or the threshold where that is higher."""
    return max(int(usable_window(session) * HYGIENE_RATIO), threshold.tokens)


def server_threshold(
    session: SessionRecord, threshold: Threshold, settings: CompressionSettings
) -> int | None:
    """Return the threshold that OpenAI is told to compact at on its side (ENGINE.md §9, row 18).

    It lies below ours, so that the server fires first. None where that is not configured, where
    the model does not have it, and where ours leaves no room below.
    """
    if not openai_compacts(session.model, settings):
        return None
    tokens = threshold.tokens - SERVER_LEAD_TOKENS
    if settings.codex_responses_compact_threshold is not None:
        tokens = min(tokens, settings.codex_responses_compact_threshold)
    return tokens if tokens >= LEAST_SERVER_THRESHOLD else None


def region_rules(threshold: Threshold, settings: CompressionSettings) -> RegionRules:
    """Return what head and tail of a session with that threshold hold (ENGINE.md §5)."""
    return RegionRules(
        protect_first_n=settings.protect_first_n,
        protect_last_n=settings.protect_last_n,
        min_tail_user_messages=settings.min_tail_user_messages,
        tail_budget=int(threshold.tokens * settings.target_ratio),
    )


def _reserve(session: SessionRecord) -> int:
    """Return what of the window is kept for answers, in tokens.

    A reserve was chosen for the gateway's window. Of a much smaller one that the provider told of
    it might leave nothing, and the session could never be compacted.
    """
    if session_window(session) == (session.context_window or DEFAULT_WINDOW):
        return session.reserved_output
    return min(session.reserved_output, session_window(session) // 2)
