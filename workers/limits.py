"""The numbers of a session that follow from its model, its window and the configuration."""

from __future__ import annotations

from storage.sessions import SessionRecord
from workers.managed import openai_compacts
from workers.regions import RegionRules
from workers.settings import CompressionSettings
from workers.threshold import Threshold, threshold_tokens

DEFAULT_WINDOW = 128_000
"""Context window in tokens of a session whose gateway named none: the smallest that models of
the last years have."""

HYGIENE_RATIO = 0.85
"""Share of the usable window at which the gateway's door is closed (ENGINE.md §9, row 3)."""

SERVER_LEAD_TOKENS = 8_192
"""How far below our threshold a provider compacts on its side (ENGINE.md §9, row 18)."""

LEAST_SERVER_THRESHOLD = 1_000


def session_window(session: SessionRecord) -> int:
    """The session's context window in tokens, the reserve for answers included.

    A smaller one that the provider told of in an error goes before the gateway's.
    """
    given = session.context_window or DEFAULT_WINDOW
    return given if session.declared_window is None else min(given, session.declared_window)


def usable_window(session: SessionRecord) -> int:
    """The part of the window that a request may fill: the `window` of ENGINE.md §4."""
    return session_window(session) - _reserve(session)


def session_threshold(session: SessionRecord, settings: CompressionSettings) -> Threshold:
    """The session's threshold (ENGINE.md §4). Raises `NoUsableWindowError`."""
    return threshold_tokens(
        context_window=session_window(session),
        model=session.model,
        reserved_output=_reserve(session),
        settings=settings,
    )


def hygiene_limit(session: SessionRecord, threshold: Threshold) -> int:
    """Tokens at which a session is compacted before its next request is made (ENGINE.md §9,
    row 3): 85 % of the usable window, or the threshold where that is higher."""
    return max(int(usable_window(session) * HYGIENE_RATIO), threshold.tokens)


def server_threshold(
    session: SessionRecord, threshold: Threshold, settings: CompressionSettings
) -> int | None:
    """The threshold that OpenAI is told to compact at on its side (ENGINE.md §9, row 18).

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
    """What head and tail of a session with that threshold hold (ENGINE.md §5)."""
    return RegionRules(
        protect_first_n=settings.protect_first_n,
        protect_last_n=settings.protect_last_n,
        min_tail_user_messages=settings.min_tail_user_messages,
        tail_budget=int(threshold.tokens * settings.target_ratio),
    )


def _reserve(session: SessionRecord) -> int:
    """What of the window is kept for answers, in tokens.

    A reserve was chosen for the gateway's window. Of a much smaller one that the provider told of
    it might leave nothing, and the session could never be compacted.
    """
    if session_window(session) == (session.context_window or DEFAULT_WINDOW):
        return session.reserved_output
    return min(session.reserved_output, session_window(session) // 2)
