"""The `anthropic` dialect: content parts of either shape as Anthropic content blocks.

Stored blocks of the Anthropic shape pass unchanged, since a signature is valid only for the exact
text that it was made for.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import Any, NoReturn

from storage.conversations.rows import Message
from workers.rendering.calls import (
    OPENING_LINE,
    Part,
    StoredCall,
    ToolIds,
    answer_content,
    answered_id,
    as_parts,
    calls_of,
    is_call_part,
    parts_of,
    unshown,
)
from workers.rendering.repair import Step

Block = dict[str, Any]

_TEXT_FIELDS = frozenset({"type", "text", "cache_control", "citations"})
_DATA_URL = re.compile(
    r"data:image/(?P<kind>jpeg|jpg|png|gif|webp)(?:;[^;,]*)*;base64,(?P<encoded>.+)",
    re.IGNORECASE | re.DOTALL,
)
_WEB_URL = re.compile(r"https?://", re.IGNORECASE)


def system_blocks(message: Message) -> list[Block]:
    """Return the text blocks of a system message; it can hold nothing else."""
    return [block for block in user_blocks(message) if block["type"] == "text"]


def user_blocks(message: Message) -> list[Block]:
    """Return the blocks of a user message or of a tool result's content; blank text is left out."""
    return [block for part in as_parts(message.get("content")) if (block := _user_block(part))]


def assistant_blocks(message: Message, ids: Sequence[str]) -> list[Block]:
    """Return the blocks of an assistant message whose calls are shown under `ids`.

    Stored `tool_use` parts keep their place, entries of `tool_calls` come last.
    """
    calls = calls_of(message)
    listed = len(message.get("tool_calls") or ())
    inline = iter(zip(calls[listed:], ids[listed:], strict=True))
    upcoming = next(inline, None)
    blocks: list[Block] = []
    for part in as_parts(message.get("content")):
        if not is_call_part(part):
            blocks += [block] if (block := _assistant_block(part)) else []
        elif upcoming and part["id"] == upcoming[0].id:
            blocks.append({**part, "id": upcoming[1]})
            upcoming = next(inline, None)
    return blocks + [_call_block(c, i) for c, i in zip(calls[:listed], ids, strict=False)]


def result_block(message: Message, identifier: str) -> Block:
    """Return the `tool_result` block of a tool message that answers the call shown as
    `identifier`."""
    block: Block = {"type": "tool_result", "tool_use_id": identifier}
    content = message["content"]
    parts = parts_of(message)
    if len(parts) == 1 and answered_id(parts[0]):
        if parts[0]["type"] == "tool_result":
            block = {**parts[0], **block}
        content = answer_content(parts[0])
    block.pop("content", None)
    shown = content if isinstance(content, str) else user_blocks({"content": _unwrapped(content)})
    if shown and not (isinstance(shown, str) and not shown.strip()):
        block["content"] = shown
    return block


def _unwrapped(content: Any) -> list[Part]:
    """Return `content` as parts, with result parts replaced by their own content."""
    return [
        inner
        for part in as_parts(content)
        for inner in (as_parts(answer_content(part)) if answered_id(part) else [part])
    ]


def _user_block(part: Part) -> Block | None:
    match part:
        case {"type": "image_url", "image_url": {"url": str(url)} | str(url)}:
            return _image(url)
        case {"type": "image" | "document", "source": _} | {
            "type": "search_result" | "tool_reference"
        }:
            return dict(part)
        case _:
            return _text_block(part)


def _assistant_block(part: Part) -> Block | None:
    match part:
        case {"type": "thinking", "signature": _} | {"type": "redacted_thinking"}:
            return dict(part)
        case {"type": "thinking"}:
            return None
        case _:
            return _text_block(part)


def _text_block(part: Part) -> Block | None:
    """Return a text block, a note for a part that is no text, None for blank text."""
    match part:
        case {"type": "text", "text": str(text)}:
            known = {key: value for key, value in part.items() if key in _TEXT_FIELDS}
            return known if text.strip() else None
        case {"type": "input_text" | "output_text", "text": str(text)} | {
            "type": "refusal",
            "refusal": str(text),
        }:
            return {"type": "text", "text": text} if text.strip() else None
        case _:
            return {"type": "text", "text": unshown(str(part.get("type")))}


def _image(url: str) -> Block:
    if found := _DATA_URL.fullmatch(url):
        kind = found["kind"].lower().replace("jpg", "jpeg")
        source = {"type": "base64", "media_type": f"image/{kind}", "data": found["encoded"]}
        return {"type": "image", "source": source}
    if _WEB_URL.match(url):
        return {"type": "image", "source": {"type": "url", "url": url}}
    return {"type": "text", "text": unshown("image_url")}


def _call_block(call: StoredCall, identifier: str) -> Block:
    arguments = tool_input(call.arguments)
    return {"type": "tool_use", "id": identifier, "name": call.name, "input": arguments}


def tool_input(arguments: Any) -> dict[str, Any]:
    """Return arguments as the JSON object that a `tool_use` block must hold.

    JSON text is parsed. Anything but an object, and text that is not strict JSON, is wrapped as
    `{"arguments": …}`; missing arguments become an empty object.
    """
    if arguments is None or arguments == "":
        return {}
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments, parse_float=_finite, parse_constant=_refuse)
        except (ValueError, RecursionError):
            # A model may have written broken JSON; the text itself is all that can be shown.
            return {"arguments": arguments}
    return arguments if isinstance(arguments, dict) else {"arguments": arguments}


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _refuse(text)


def _refuse(text: str) -> NoReturn:
    raise ValueError(text)


def write(
    steps: Sequence[Step],
) -> tuple[list[Block], list[dict[str, Any]], tuple[int, ...]]:
    """Return the system blocks, the messages, and the positions of steps with nothing to show.

    Each text is a block of its own, so the newest user message stays word for word beside
    anything else. Blank text and messages without a block are left out. Call ids are made
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
            _append(messages, "user", blocks)
        else:
            blocks = assistant_blocks(step.message, shown)
            _append(messages, "assistant", blocks)
            _append(
                messages, "user", [result_block(r.message, shown[r.slot]) for r in step.results]
            )
        if not blocks and step.position is not None:
            bare.append(step.position)
    if not messages or messages[0]["role"] != "user":
        opening: Block = {"type": "text", "text": OPENING_LINE}
        messages.insert(0, {"role": "user", "content": [opening]})
    return system, messages, tuple(bare)


def _append(messages: list[dict[str, Any]], role: str, blocks: list[Block]) -> None:
    if not blocks:
        return
    if messages and messages[-1]["role"] == role:
        messages[-1]["content"] += blocks
    else:
        messages.append({"role": role, "content": list(blocks)})
