"""The `openai` dialect: messages as OpenAI-style chat servers accept them.

Parts that such a server accepts pass unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from storage.conversations.rows import Message
from workers.rendering.calls import (
    Part,
    StoredCall,
    answer_content,
    answered_id,
    as_parts,
    calls_of,
    is_call_part,
    parts_of,
    unshown,
)
from workers.rendering.repair import Step

_MAY_REPLACE_CONTENT = ("tool_calls", "function_call", "refusal", "audio")


def chat_message(message: Message) -> dict[str, Any] | None:
    """Return `message` as a chat dict, equal to the stored one wherever a chat server accepts that.

    Parts of the Anthropic shape are rewritten: `tool_use` to `tool_calls`, images to
    `image_url`, results to text; signed thinking is dropped, since no chat server accepts it.
    Returns None for a message with nothing else in it. Required content that is missing becomes
    "", and an empty `tool_calls` list is left out.
    """
    shaped = dict(message)
    parts = parts_of(message)
    if any(_is_foreign(part) for part in parts):
        shaped["content"] = [kept for part in parts if (kept := _chat_part(part, message))]
        listed = message.get("tool_calls") or []
        if added := [_chat_call(call) for call in calls_of(message)[len(listed) :]]:
            shaped["tool_calls"] = [*listed, *added]
    if shaped.get("tool_calls") == []:
        del shaped["tool_calls"]
    return _with_content(shaped, dropped=bool(parts) and not shaped["content"])


def _with_content(shaped: dict[str, Any], dropped: bool) -> dict[str, Any] | None:
    """Repair missing content; `dropped` says that the message had parts and none is left."""
    if shaped.get("content") or shaped.get("content") == "":
        return shaped
    if any(shaped.get(field) for field in _MAY_REPLACE_CONTENT):
        return {**shaped, "content": None} if "content" in shaped else shaped
    if dropped and shaped["role"] == "assistant":
        return None
    return {**shaped, "content": ""}


def chat_result(message: Message) -> dict[str, Any]:
    """Return a tool message as a chat dict; result parts in it become text."""
    parts = parts_of(message)
    if not any(answered_id(part) for part in parts):
        return chat_message(message) or {**message, "content": ""}
    texts = (
        _text_of(inner)
        for part in parts
        for inner in (as_parts(answer_content(part)) if answered_id(part) else [part])
    )
    return {**message, "content": "\n".join(text for text in texts if text)}


def _is_foreign(part: Part) -> bool:
    match part.get("type"):
        case "tool_use" | "tool_result" | "redacted_thinking":
            return True
        case "thinking":
            return "signature" in part
        case "image" | "document":
            return "source" in part
        case _:
            return False


def _chat_part(part: Part, message: Message) -> Part | None:
    """Return a part as chat servers accept it, None for one that is dropped or shown elsewhere."""
    if not _is_foreign(part):
        return part
    kind = str(part.get("type"))
    if kind in ("thinking", "redacted_thinking"):
        return None
    if is_call_part(part) and message["role"] == "assistant":
        return None
    url = _image_url(part.get("source")) if kind == "image" else None
    if url is None:
        return {"type": "text", "text": unshown(kind)}
    return {"type": "image_url", "image_url": {"url": url}}


def _image_url(source: Any) -> str | None:
    match source:
        case {"type": "base64", "media_type": str(media), "data": str(encoded)}:
            return f"data:{media};base64,{encoded}"
        case {"type": "url", "url": str(url)}:
            return url
        case _:
            return None


def _chat_call(call: StoredCall) -> dict[str, Any]:
    text = json.dumps({} if call.arguments is None else call.arguments, ensure_ascii=False)
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": text}}


def _text_of(part: Part) -> str:
    """Return the text of a part of a tool result, which chat servers accept as text alone."""
    text = part.get("text")
    return text if isinstance(text, str) else unshown(str(part["type"]))


def write(steps: Sequence[Step]) -> tuple[list[dict[str, Any]], tuple[int, ...]]:
    """Return the chat messages of `steps`, and the positions of those with nothing to show."""
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
