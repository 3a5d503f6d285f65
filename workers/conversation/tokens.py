"""Estimates of the tokens of texts and messages, without a tokeniser.

See docs/explanation/tokens.md for the rules and their accuracy.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

IMAGE_TOKENS = 1_600
MESSAGE_TOKENS = 4
CALL_ID_TOKENS = 4

# Tokens per character. Letters, digits and punctuation differ so much within Latin text (prose has
# 4.5 characters a token, compact JSON 3.2) that a single ratio is off by a third; these weights
# are fitted to o200k counts. Blanks are part of the word that follows them.
_LETTER = 1 / 4.2
_DIGIT = 0.6
_MARK = 0.5
_NEWLINE = 0.75
_BLANK = 0.03
_CJK = 0.72
_SYMBOL = 0.75
_SURROGATE = 0.6
_OTHER = 0.5

_DENSE_CHARACTERS_PER_TOKEN = 3

_CODED_SEPARATELY = frozenset({"role", "content", "tool_calls", "tool_call_id", "name"})


def _ascii_class(code: int) -> str:
    character = chr(code)
    if character.isalpha():
        return "a"
    if character.isdigit():
        return "0"
    if character == "\n":
        return "n"
    return " " if character in " \t\r" else "."


def _block_class(high_byte: int) -> str:
    """Return the kind of the 256 characters whose UTF-16 code starts with `high_byte`."""
    if high_byte == 0x00:
        return "l"
    if 0x20 <= high_byte <= 0x2B:
        return "s"
    if 0xD8 <= high_byte <= 0xDF:
        return "p"
    is_cjk = (
        0x2E <= high_byte <= 0x9F
        or 0xAC <= high_byte <= 0xD7
        or high_byte in (0x11, 0xF9, 0xFA, 0xFE, 0xFF)
    )
    return "c" if is_cjk else "o"


_ASCII_CLASSES = "".join(_ascii_class(code) for code in range(128)).encode() + bytes(128)
_BLOCK_CLASSES = "".join(_block_class(byte) for byte in range(256)).encode()


def estimate_text(text: str, *, dense: bool = False) -> int:
    """Estimate the tokens of `text`: 0 if it is empty, else at least 1.

    Latin text has about 4 characters a token, CJK about 1.4, other scripts 2. `dense` is for JSON
    and ids: never more than 3 characters a token. Accepts any string, lone surrogates and NUL
    included; the time is linear.
    """
    if not text:
        return 0
    latin = text.encode("ascii", "ignore")
    tokens = _ascii_tokens(latin)
    if len(latin) < len(text):
        tokens += _beyond_ascii_tokens(text, len(latin))
    if dense:
        tokens = max(tokens, len(text) / _DENSE_CHARACTERS_PER_TOKEN)
    return max(1, round(tokens))


def estimate_message(message: Mapping[str, Any]) -> int:
    """Estimate the tokens of one OpenAI chat message as it goes over the wire.

    Counts text, 1,600 per image part, tool calls in full as compact JSON, names and ids, every
    provider field (reasoning text is sent back and paid for) and 4 for the message itself.
    """
    tokens = MESSAGE_TOKENS + _estimate_content(message.get("content"))
    if message.get("tool_calls"):
        tokens += _estimate_json(message["tool_calls"])
    if message.get("tool_call_id"):
        tokens += CALL_ID_TOKENS
    name = message.get("name")
    if isinstance(name, str):
        tokens += estimate_text(name)
    return tokens + sum(
        _estimate_field(value) for field, value in message.items() if field not in _CODED_SEPARATELY
    )


def _ascii_tokens(latin: bytes) -> float:
    classes = latin.translate(_ASCII_CLASSES)
    return (
        classes.count(b"a") * _LETTER
        + classes.count(b"0") * _DIGIT
        + classes.count(b".") * _MARK
        + classes.count(b"n") * _NEWLINE
        + classes.count(b" ") * _BLANK
    )


def _beyond_ascii_tokens(text: str, ascii_length: int) -> float:
    # The high bytes of UTF-16 name the block of each character, so byte counts replace a loop.
    classes = text.encode("utf-16-le", "surrogatepass")[1::2].translate(_BLOCK_CLASSES)
    return (
        classes.count(b"c") * _CJK
        + classes.count(b"s") * _SYMBOL
        + classes.count(b"p") * _SURROGATE
        + (classes.count(b"o") + classes.count(b"l") - ascii_length) * _OTHER
    )


def _estimate_content(content: Any) -> int:
    if content is None:
        return 0
    if isinstance(content, str):
        return estimate_text(content)
    if isinstance(content, Mapping):
        return _estimate_part(content)
    if isinstance(content, list | tuple):
        return sum(_estimate_content(part) for part in content)
    return _estimate_json(content)


def _estimate_part(part: Mapping[str, Any]) -> int:
    if "image" in str(part.get("type", "")) or "image_url" in part:
        return IMAGE_TOKENS
    if isinstance(part.get("text"), str):
        return estimate_text(part["text"])
    if isinstance(part.get("content"), str | list):
        return _estimate_content(part["content"])
    return _estimate_json(part)


def _estimate_field(value: Any) -> int:
    if isinstance(value, str):
        return estimate_text(value)
    return _estimate_json(value) if value else 0


def _estimate_json(value: Any) -> int:
    compact = json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=str)
    return estimate_text(compact, dense=True)
