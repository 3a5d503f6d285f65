"""A session as a gateway holds it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Session:
    """An open session of one owner; what it says is of the moment when it was opened.

    `system_prompt` is the first one that the session was opened with, byte for byte, whatever
    later processes pass: send it in front of `Context.messages`, so the provider's prompt cache
    holds. `context_window` and `reserved_output` are in tokens.
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
