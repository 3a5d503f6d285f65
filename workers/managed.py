"""Who else compacts a conversation (ENGINE.md §9, rows 17 and 18)."""

from __future__ import annotations

from enum import StrEnum

from storage.sessions import SessionRecord
from workers.settings import CompressionSettings
from workers.threshold import stands_alone

_COMPACTED_BY_OPENAI = ("gpt-5.6",)


class ManagedBy(StrEnum):
    """What a session's `managed_by` says, beside None for nobody."""

    CODEX = "codex"
    """A Codex app server owns the thread. No automatic work of ours, at most a signal."""
    OPENAI = "openai"
    """OpenAI compacts on its side. Ours is the batch pass at our threshold, as a backstop."""


def managed_by(session: SessionRecord, settings: CompressionSettings) -> ManagedBy | None:
    """Who compacts the session instead of us, now.

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
    """Whether compaction on OpenAI's side is configured and `model` has it: the GPT-5.6 family."""
    return settings.codex_responses_native and any(
        stands_alone(family, model.casefold()) for family in _COMPACTED_BY_OPENAI
    )
