"""The `anthropic` dialect: system text apart, content blocks, one message per run of a role."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workers.rendering.anthropic_blocks import (
    Block,
    assistant_blocks,
    result_block,
    system_blocks,
    user_blocks,
)
from workers.rendering.lines import OPENING_LINE
from workers.rendering.repair import Step
from workers.rendering.tool_ids import ToolIds


def write(
    steps: Sequence[Step],
) -> tuple[list[Block], list[dict[str, Any]], tuple[int, ...]]:
    """Give the system blocks, the messages, and the positions of steps with nothing to show.

    Each text is a block of its own, so the newest user message stays word for word whatever
    stands beside it. Blank text and messages without a block are left out. Call ids are made
    valid and unique. The first message is a user's.
    """
    system: list[Block] = []
    messages: list[dict[str, Any]] = []
    bare: list[int] = []
    ids = ToolIds()
    for step in steps:
        shown = [ids.claim(call.id) for call in step.calls]
        if step.is_system:
            blocks = system_blocks(step.message)
            system += blocks
        elif step.is_user:
            blocks = user_blocks(step.message)
            _say(messages, "user", blocks)
        else:
            blocks = assistant_blocks(step.message, shown)
            _say(messages, "assistant", blocks)
            _say(messages, "user", [result_block(r.message, shown[r.slot]) for r in step.results])
        if not blocks and step.position is not None:
            bare.append(step.position)
    if not messages or messages[0]["role"] != "user":
        opening: Block = {"type": "text", "text": OPENING_LINE}
        messages.insert(0, {"role": "user", "content": [opening]})
    return system, messages, tuple(bare)


def _say(messages: list[dict[str, Any]], role: str, blocks: list[Block]) -> None:
    if not blocks:
        return
    if messages and messages[-1]["role"] == role:
        messages[-1]["content"] += blocks
    else:
        messages.append({"role": role, "content": list(blocks)})
