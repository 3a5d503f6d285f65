"""What a model is to be sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from workers.rendering import Dialect


@dataclass(frozen=True, slots=True)
class Context:
    """The live view of a session, rendered.

    `messages` are the provider's messages, `system` the text blocks of the system text where the
    dialect wants it apart (`anthropic`), else empty. `tokens` is our estimate of the view. Pass
    `revision` back with the usage that the provider reports. `omitted` are the positions of rows
    that no provider would take, such as a tool result without its call.
    """

    dialect: Dialect
    messages: list[dict[str, Any]]
    system: list[dict[str, Any]]
    tokens: int
    revision: int
    omitted: tuple[int, ...]
