"""One row of a conversation, as storage returns it and the rules of `workers` take it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

Message: TypeAlias = Mapping[str, Any]
"""An OpenAI chat message: role, content, tool_calls, tool_call_id, name, provider fields."""


class Kind(StrEnum):
    """The kind of a row. Markers have no role of their own."""

    MESSAGE = "message"
    MICRO = "micro"
    BATCH = "batch"

    @property
    def is_marker(self) -> bool:
        return self is not Kind.MESSAGE


class Origin(StrEnum):
    """The author of a user-role row; other roles have none."""

    PERSON = "person"
    RUNTIME = "runtime"
    TOOL = "tool"


_AGENT_ROLES = ("assistant", "tool")
_AGENT_ORIGINS = (Origin.RUNTIME, Origin.TOOL)


@dataclass(frozen=True, slots=True)
class Row:
    """A stored row, or its outline when `message` was left unread.

    `position` counts from 0 within the session and is never used twice; a marker shares the
    position of the last row it covers and comes after it. `tokens` is the estimate made when the
    row was stored, or of its short form where it is `pruned`; for a marker it includes the marker's
    frame. `calls` are the ids of the tool calls that the row makes, `answers` the ids that it
    answers. `opens_turn` says that it is a real user message. `summary` is the text of the summary
    that a marker shows, `verbatim` the covered user messages that it shows after it.
    """

    position: int
    tokens: int
    id: int = 0
    kind: Kind = Kind.MESSAGE
    role: str | None = None
    origin: Origin | None = None
    opens_turn: bool = False
    calls: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    message: Message | None = None
    summary: str | None = None
    verbatim: str = ""
    summary_id: int | None = None
    pruned: bool = False

    @property
    def is_of_agent(self) -> bool:
        """Whether neither a person nor the system wrote it, as the rows of `AGENT_ROW`."""
        return self.role in _AGENT_ROLES or self.origin in _AGENT_ORIGINS

    @property
    def shown(self) -> str:
        """The text that a marker shows: its summary, and the covered user messages after it."""
        return "\n\n".join(filter(None, (self.summary or "", self.verbatim)))

    @property
    def order(self) -> tuple[int, int]:
        """Sort key of the view: position, markers after messages."""
        return self.position, int(self.kind.is_marker)
