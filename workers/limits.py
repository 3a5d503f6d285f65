"""The numbers of a session that follow from its model, its window and the configuration."""

from __future__ import annotations

from storage.sessions import SessionRecord
from workers.compression_settings import CompressionSettings
from workers.regions import RegionRules
from workers.threshold import Threshold, threshold_tokens

DEFAULT_WINDOW = 128_000
"""Context window in tokens of a session whose gateway named none: the smallest that models of
the last years have."""


def session_threshold(session: SessionRecord, settings: CompressionSettings) -> Threshold:
    """The session's threshold (ENGINE.md §4)."""
    return threshold_tokens(
        context_window=session.context_window or DEFAULT_WINDOW,
        model=session.model,
        reserved_output=session.reserved_output,
        settings=settings,
    )


def region_rules(threshold: Threshold, settings: CompressionSettings) -> RegionRules:
    """What head and tail of a session with that threshold hold (ENGINE.md §5)."""
    return RegionRules(
        protect_first_n=settings.protect_first_n,
        protect_last_n=settings.protect_last_n,
        min_tail_user_messages=settings.min_tail_user_messages,
        tail_budget=int(threshold.tokens * settings.target_ratio),
    )
