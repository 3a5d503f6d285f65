"""One answer of a chat-completions endpoint, assembled from its parts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from workers.summariser.contract import ErrorClass, SummariserError, SummaryRequest

# Servers use different names for reasoning; none of it belongs to the summary.
_REASONING = ("reasoning_content", "reasoning", "reasoning_details", "thinking")

_FINISHES = {
    "length": ErrorClass.CUT_BY_LENGTH,
    "max_tokens": ErrorClass.CUT_BY_LENGTH,
    "model_length": ErrorClass.CUT_BY_LENGTH,
    "tool_calls": ErrorClass.TOOL_CALL,
    "function_call": ErrorClass.TOOL_CALL,
    "content_filter": ErrorClass.REFUSAL,
    "error": ErrorClass.SERVER_ERROR,
    "insufficient_system_resource": ErrorClass.SERVER_ERROR,
    "abort": ErrorClass.INTERRUPTED,
}


def size_limit(request: SummaryRequest) -> int:
    """Return the number of characters after which an answer cannot be the requested summary.

    That is twice the size of the replaced tokens as prose, since an answer that does not shrink is
    refused anyway; for a structured summary, which replaces many times its own size, four times
    the requested size. The exact comparison comes later: this limit only bounds an answer that does
    not end, since no output limit is sent.
    """
    limit = 8 * request.replaced_tokens
    if request.task.in_sections:
        limit = min(limit, 16 * request.target_tokens)
    return max(limit, 4_000)


class Completion:
    """An answer that is built from the chunks of a stream, or from one whole completion.

    Fields of the wrong type count as absent: most endpoints only resemble OpenAI's.
    `prompt_tokens` and `completion_tokens` are None until the endpoint reports them.
    """

    def __init__(self, limit_chars: int) -> None:
        self.prompt_tokens: int | None = None
        self.completion_tokens: int | None = None
        self._limit_chars = limit_chars
        self._visible = VisibleText()
        self._reasoned = False
        self._finish: str | None = None

    @property
    def finished(self) -> bool:
        """Whether the endpoint has sent a finish reason."""
        return self._finish is not None

    def take(self, payload: Mapping[str, Any]) -> bool:
        """Add `payload`, a decoded JSON object; return whether it held text or reasoning.

        Raises `SummariserError` as soon as it cannot become a summary: TOOL_CALL, REFUSAL,
        TOO_LARGE.
        """
        self._count(payload.get("usage"))
        choices = payload.get("choices")
        choice = _mapping(choices[0]) if isinstance(choices, list) and choices else {}
        whole = _mapping(choice.get("message"))
        part = whole or _mapping(choice.get("delta"))
        _check(part)
        text = _text(part.get("content"))
        self._visible.feed(text)
        if self._visible.chars > self._limit_chars:
            raise SummariserError(ErrorClass.TOO_LARGE, f"over {self._limit_chars} characters")
        reasoning = any(part.get(field) for field in _REASONING)
        self._reasoned |= reasoning
        finish = choice.get("finish_reason")
        if finish or whole:
            self._finish = str(finish or "stop")
        return bool(part.get("content")) or reasoning

    def text(self) -> str:
        """Return the text of the complete answer.

        Raises `SummariserError` where it is not usable: CUT_BY_LENGTH, TOOL_CALL, REFUSAL,
        SERVER_ERROR, INTERRUPTED, EMPTY.
        """
        if self._finish is None:
            raise SummariserError(ErrorClass.INTERRUPTED, "ended without a finish reason")
        if self._finish in _FINISHES:
            raise SummariserError(_FINISHES[self._finish], f"finish reason {self._finish}")
        text = self._visible.text().strip()
        if not text:
            raise SummariserError(ErrorClass.EMPTY, "reasoning only" if self._reasoned else "")
        return text

    def _count(self, usage: object) -> None:
        match usage:
            case {"prompt_tokens": int(prompt), "completion_tokens": int(completion)}:
                self.prompt_tokens, self.completion_tokens = prompt, completion


def _check(part: Mapping[str, Any]) -> None:
    if part.get("tool_calls") or part.get("function_call"):
        raise SummariserError(ErrorClass.TOOL_CALL, "called a tool without having any")
    if part.get("refusal"):
        raise SummariserError(ErrorClass.REFUSAL)


def _text(content: object) -> str:
    """Return the text of a content, which some servers send as a list of typed parts."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = [_mapping(part) for part in content]
    return "".join(str(part.get("text") or "") for part in parts if part.get("type") == "text")


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


_TAGS = ("<think>", "</think>")
_TAG = re.compile("(</?think>)", re.IGNORECASE)


class VisibleText:
    """The text of an answer, collected piece by piece, without its `<think>` blocks.

    A tag may be split over pieces. Text before a closing tag without an opening one is thinking
    too: chat templates that open the block in the prompt cause such answers.
    """

    def __init__(self) -> None:
        self._kept: list[str] = []
        self._unfinished = ""
        self._thinking = False
        self.chars = 0

    def feed(self, piece: str) -> None:
        """Add the next piece; `chars` then counts the visible characters so far."""
        text = self._unfinished + piece
        cut = _start_of_unfinished_tag(text)
        self._unfinished = text[cut:]
        for token in _TAG.split(text[:cut]):
            self._take(token)

    def text(self) -> str:
        """Return the visible text; "" where a block was never closed."""
        return "" if self._thinking else "".join(self._kept) + self._unfinished

    def _take(self, token: str) -> None:
        match token.lower():
            case "<think>":
                self._thinking = True
            case "</think>":
                if not self._thinking:
                    self._kept.clear()
                    self.chars = 0
                self._thinking = False
            case _ if not self._thinking:
                self._kept.append(token)
                self.chars += len(token)


def _start_of_unfinished_tag(text: str) -> int:
    start = text.rfind("<")
    tail = text[start:].lower()
    unfinished = start >= 0 and any(tag.startswith(tail) and tag != tail for tag in _TAGS)
    return start if unfinished else len(text)
