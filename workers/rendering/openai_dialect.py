"""The `openai` dialect: chat dicts, rows as stored, each marker a message of its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from workers.rendering.chat_shape import chat_message, chat_result
from workers.rendering.repair import Step


def write(steps: Sequence[Step]) -> tuple[list[dict[str, Any]], tuple[int, ...]]:
    """Give the chat messages of `steps`, and the positions of those with nothing to show."""
    messages: list[dict[str, Any]] = []
    bare: list[int] = []
    for step in steps:
        message = chat_message(step.message)
        if message is None:
            bare += [] if step.position is None else [step.position]
            continue
        messages.append(message)
        messages.extend(results_of(step))
    return messages, tuple(bare)


def results_of(step: Step) -> Iterable[dict[str, Any]]:
    return (chat_result(result.message) for result in step.results)
