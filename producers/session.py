"""A session as a gateway holds it."""

from __future__ import annotations

from dataclasses import dataclass

from storage.sessions import SessionRecord
from workers.compression_settings import CompressionSettings
from workers.limits import server_threshold, session_threshold
from workers.threshold import NoUsableWindowError


@dataclass(frozen=True, slots=True)
class Session:
    """An open session of one owner; what it says is of the moment when it was opened.

    `system_prompt` is the first one that the session was opened with, byte for byte, whatever
    later processes pass: send it in front of `Context.messages`, so the provider's prompt cache
    holds. `context_window` and `reserved_output` are in tokens, and so is `threshold`, where
    compaction starts: None where the window leaves no room for a conversation. With
    `server_threshold`, None unless OpenAI compacts this session's model on its side, the gateway
    tells OpenAI where to do so; it lies below ours (ENGINE.md §9, row 18).
    """

    key: int
    owner: str
    id: str
    source: str
    chat_id: str | None
    thread_id: str | None
    title: str | None
    model: str
    context_window: int | None
    reserved_output: int
    system_prompt: str | None
    managed_by: str | None = None
    threshold: int | None = None
    server_threshold: int | None = None


def session_of(
    record: SessionRecord, system_prompt: str | None, settings: CompressionSettings
) -> Session:
    """What a gateway is given of a stored session."""
    try:
        threshold = session_threshold(record, settings)
    except NoUsableWindowError:
        threshold = None
    return Session(
        key=record.key,
        owner=record.owner,
        id=record.id,
        source=record.source,
        chat_id=record.chat_id,
        thread_id=record.thread_id or None,
        title=record.title,
        model=record.model,
        context_window=record.context_window,
        reserved_output=record.reserved_output,
        system_prompt=system_prompt,
        managed_by=record.managed_by,
        threshold=threshold.tokens if threshold else None,
        server_threshold=server_threshold(record, threshold, settings) if threshold else None,
    )
