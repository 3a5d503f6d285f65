"""The part of an answer that is not thinking aloud."""

from __future__ import annotations

import re

_TAGS = ("<think>", "</think>")
_TAG = re.compile("(</?think>)", re.IGNORECASE)


class VisibleText:
    """Collects an answer piece by piece and leaves its `<think>` blocks out.

    A tag may be spread over pieces. What stands before a closing tag without an opening one was
    thinking too: chat templates that open the block in the prompt make such answers.
    """

    def __init__(self) -> None:
        self._kept: list[str] = []
        self._held = ""
        self._thinking = False
        self.chars = 0

    def feed(self, piece: str) -> None:
        """Take the next piece; `chars` then counts the visible characters so far."""
        text = self._held + piece
        cut = _start_of_unfinished_tag(text)
        self._held = text[cut:]
        for token in _TAG.split(text[:cut]):
            self._take(token)

    def text(self) -> str:
        """The visible text; nothing at all where a block was never closed."""
        return "" if self._thinking else "".join(self._kept) + self._held

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
