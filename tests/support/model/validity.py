"""What providers refuse, as checks on a request's messages.

Written from the providers' own rules and without any rule of the renderer, so that both cannot
share a mistake. Each check raises AssertionError with the reason of the refusal.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from workers.rendering import Dialect, RenderedView

_CHAT_ROLES = {"system", "developer", "user", "assistant", "tool"}
_CHAT_PARTS = {
    "system": {"text"},
    "developer": {"text"},
    "user": {"text", "image_url", "input_audio", "file"},
    "assistant": {"text", "refusal"},
    "tool": {"text"},
}
_ANTHROPIC_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ANTHROPIC_BLOCKS = {
    "user": {"text", "image", "document", "search_result", "tool_result"},
    "assistant": {"text", "tool_use", "thinking", "redacted_thinking"},
}
_ANTHROPIC_IMAGES = {"image/jpeg", "image/png", "image/gif", "image/webp"}


def check_view(view: RenderedView, dialect: Dialect) -> None:
    """Check a rendered view by the rules of its dialect."""
    match dialect:
        case Dialect.OPENAI:
            check_openai(view.messages)
        case Dialect.STRICT:
            check_strict(view.messages)
        case Dialect.ANTHROPIC:
            check_anthropic(view.system, view.messages)


def check_openai(messages: Sequence[Mapping[str, Any]]) -> None:
    """Chat Completions: shapes, and every call directly followed by exactly its results."""
    assert messages, "no messages"
    _check_json(messages)
    due: Counter[str] = Counter()
    for index, message in enumerate(messages):
        role = message.get("role")
        assert role in _CHAT_ROLES, f"messages[{index}]: unknown role {role!r}"
        _check_chat_content(index, message)
        if role == "tool":
            identifier = str(message.get("tool_call_id"))
            assert identifier in due, f"messages[{index}]: no preceding call {identifier!r}"
            due -= Counter([identifier])
            continue
        assert not due, f"messages[{index}]: calls {sorted(due)} still have no result"
        due = Counter(_chat_calls(index, message))
    assert not due, f"the last calls {sorted(due)} have no result"
    assert any(m["role"] == "user" for m in messages), "no user message"


def check_strict(messages: Sequence[Mapping[str, Any]]) -> None:
    """Chat templates that insist on user/assistant/user/…, with tool flow ignored."""
    check_openai(messages)
    for index, message in enumerate(messages):
        role = message["role"]
        assert role != "developer", f"messages[{index}]: role developer is unknown here"
        assert role != "system" or index == 0, f"messages[{index}]: system message not first"
    counted = [
        (index, message["role"])
        for index, message in enumerate(messages)
        if message["role"] in ("user", "assistant") and not message.get("tool_calls")
    ]
    for place, (index, role) in enumerate(counted):
        expected = ("user", "assistant")[place % 2]
        assert role == expected, f"messages[{index}]: {role} where {expected} is due"
    for index, (one, other) in enumerate(pairwise(messages)):
        pair = (one["role"], other["role"])
        assert pair != ("assistant", "assistant"), f"messages[{index}]: two assistant rows touch"


def check_anthropic(
    system: Sequence[Mapping[str, Any]], messages: Sequence[Mapping[str, Any]]
) -> None:
    """Messages API: blocks, alternation, ids, results at the front of the next user message."""
    _check_json([*system, *messages])
    for index, block in enumerate(system):
        assert block.get("type") == "text", f"system[{index}]: is no text block"
        assert block["text"].strip(), f"system[{index}]: blank text"
    assert messages, "no messages"
    seen: set[str] = set()
    for index, message in enumerate(messages):
        assert set(message) == {"role", "content"}, f"messages[{index}]: extra or missing fields"
        role, blocks = message["role"], message["content"]
        expected = ("user", "assistant")[index % 2]
        assert role == expected, f"messages[{index}]: {role} where {expected} is due"
        assert isinstance(blocks, list), f"messages[{index}]: content is no list of blocks"
        assert blocks, f"messages[{index}]: empty content"
        for place, block in enumerate(blocks):
            where = f"messages[{index}].content[{place}]"
            assert block.get("type") in _ANTHROPIC_BLOCKS[role], f"{where}: {block.get('type')!r}"
            _check_block(where, block)
        uses = [block["id"] for block in blocks if block["type"] == "tool_use"]
        assert not seen.intersection(uses), f"messages[{index}]: tool_use id used before"
        assert len(set(uses)) == len(uses), f"messages[{index}]: tool_use id used twice"
        seen.update(uses)
        _check_answers(index, messages, uses)


def _check_answers(index: int, messages: Sequence[Mapping[str, Any]], uses: list[str]) -> None:
    """Check that the message after `index` answers `uses`, first thing, and nothing else."""
    behind = messages[index + 1]["content"] if index + 1 < len(messages) else []
    kinds = [block["type"] for block in behind]
    answers = [block["tool_use_id"] for block in behind if block["type"] == "tool_result"]
    assert sorted(answers) == sorted(uses), f"messages[{index}]: calls and results differ"
    leading = kinds[: len(answers)]
    assert leading.count("tool_result") == len(answers), f"messages[{index + 1}]: results not first"
    if index == 0:
        first = [block["type"] for block in messages[0]["content"]]
        assert "tool_result" not in first, "messages[0]: a result leads"


def _check_block(where: str, block: Mapping[str, Any]) -> None:
    match block["type"]:
        case "text":
            assert isinstance(block["text"], str), f"{where}: text is no string"
            assert block["text"].strip(), f"{where}: blank text"
            assert set(block) <= {"type", "text", "cache_control", "citations"}, f"{where}: extras"
        case "image":
            source = block["source"]
            assert source["type"] in ("base64", "url"), f"{where}: unknown image source"
            if source["type"] == "base64":
                assert source["media_type"] in _ANTHROPIC_IMAGES, f"{where}: media type"
                assert source["data"], f"{where}: no data"
            else:
                assert source["url"].startswith(("http://", "https://")), f"{where}: no web address"
        case "tool_use":
            assert _ANTHROPIC_ID.fullmatch(block["id"]), f"{where}: id {block['id']!r}"
            assert block["name"], f"{where}: no tool name"
            assert isinstance(block["input"], dict), f"{where}: input is no object"
        case "tool_result":
            assert _ANTHROPIC_ID.fullmatch(block["tool_use_id"]), f"{where}: id"
            content = block.get("content", "")
            assert isinstance(content, str | list), f"{where}: content"
            for inner in content if isinstance(content, list) else []:
                assert inner["type"] in ("text", "image", "document", "search_result"), where
                if inner["type"] != "document":
                    _check_block(where, inner)
        case "thinking":
            assert block["signature"], f"{where}: thinking without signature"


def _check_chat_content(index: int, message: Mapping[str, Any]) -> None:
    role, content = message["role"], message.get("content")
    if content is None:
        other = ("tool_calls", "function_call", "refusal", "audio")
        assert role == "assistant", f"messages[{index}]: no content"
        assert any(message.get(field) for field in other), f"messages[{index}]: no content"
        return
    if isinstance(content, str):
        return
    assert isinstance(content, list), f"messages[{index}]: content is {type(content).__name__}"
    assert content, f"messages[{index}]: empty list of parts"
    for place, part in enumerate(content):
        kind = part.get("type")
        assert kind in _CHAT_PARTS[role], f"messages[{index}].content[{place}]: {kind!r} in {role}"
        if kind == "text":
            assert isinstance(part["text"], str), f"messages[{index}].content[{place}]: no text"
        if kind == "image_url":
            assert isinstance(part["image_url"]["url"], str), f"messages[{index}]: no address"


def _chat_calls(index: int, message: Mapping[str, Any]) -> list[str]:
    calls = message.get("tool_calls")
    if calls is None:
        return []
    assert message["role"] == "assistant", f"messages[{index}]: calls by {message['role']}"
    assert calls, f"messages[{index}]: empty tool_calls"
    for call in calls:
        assert call["type"] == "function", f"messages[{index}]: call type"
        assert isinstance(call["function"]["name"], str), f"messages[{index}]: call name"
        assert call["function"]["name"], f"messages[{index}]: empty call name"
        assert isinstance(call["function"]["arguments"], str), f"messages[{index}]: arguments"
    return [call["id"] for call in calls]


def _check_json(messages: Any) -> None:
    json.dumps(messages, allow_nan=False)
