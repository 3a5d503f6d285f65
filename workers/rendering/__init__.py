"""Rendering of the live view: rows in, messages of one provider dialect out.

Pure and deterministic: the same rows render to the same bytes, so prompt caches stay valid. Stored
messages never change; repairs affect the view alone. See docs/explanation/dialects.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from storage.conversations.rows import Row
from workers.rendering import anthropic, chat, strict
from workers.rendering.repair import RenderingError, repair

__all__ = ["Dialect", "RenderedView", "RenderingError", "render"]


class Dialect(StrEnum):
    """The provider rules that a view must meet."""

    OPENAI = "openai"
    """Chat dicts as they are stored, each marker a user message of its own."""
    ANTHROPIC = "anthropic"
    """Content blocks, system text apart, neighbouring messages of one role joined."""
    STRICT = "strict"
    """Chat dicts whose roles alternate user/assistant once tool flow is ignored."""


@dataclass(frozen=True, slots=True)
class RenderedView:
    """A view that can be sent.

    `messages` are the chat messages of the dialect. `system` is the system text as a list of text
    blocks, for anthropic alone; the other dialects leave it empty and keep system rows among
    their messages. `omitted` are the positions of rows that are missing, wholly or in part: tool
    results that answer no call before them, results that a newer one replaced, rows without
    anything that the dialect can carry. `stubbed` are the positions of rows with a call that was
    never answered, which was given a constant result.

    Values inside the messages are shared with the rows: copy before changing them.
    """

    messages: list[dict[str, Any]]
    system: list[dict[str, Any]]
    omitted: tuple[int, ...]
    stubbed: tuple[int, ...]


def render(rows: Sequence[Row], dialect: Dialect) -> RenderedView:
    """Render the live view `rows`, given in view order, for `dialect`.

    In every dialect each call is directly followed by its results, no tool row leads, at least
    one message is a user's, the newest real user message is there word for word, and each marker
    is there once, as user-role text in its frame. Raises `RenderingError` for a row that came
    without its message, or a marker without its summary.
    """
    repaired = repair(rows)
    system: list[dict[str, Any]] = []
    match dialect:
        case Dialect.OPENAI:
            messages, bare = chat.write(repaired.steps)
        case Dialect.STRICT:
            messages, bare = strict.write(repaired.steps)
        case Dialect.ANTHROPIC:
            system, messages, bare = anthropic.write(repaired.steps)
    omitted = tuple(sorted({*repaired.omitted, *bare}))
    return RenderedView(messages, system, omitted, repaired.stubbed)
