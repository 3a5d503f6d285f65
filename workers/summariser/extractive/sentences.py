"""Splitting of text into plain sentences and lines, and writing it as a quotation."""

from __future__ import annotations

import re
from collections.abc import Iterator

from workers.conversation.tokens import estimate_text
from workers.summariser.extractive.condensing import JOINT, clip
from workers.summariser.headings import outline
from workers.summariser.passages import NOTE
from workers.summariser.role_play import is_order, without_roles

LINE_TOKENS = 60

_CODE_BLOCK = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+|(?<=[。！？؟])")
_ORNAMENT = re.compile(r"^(?:[>#*\-•→\s]+|\d{1,3}[.)]\s+)+|\*{2,}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\ufeff]+")


def sentences(text: str) -> Iterator[str]:
    """Split a message into plain sentences with a letter or a digit, without its code."""
    for raw in _prose(text):
        for piece in _SENTENCE_END.split(raw):
            sentence = plain(piece.replace("`", ""))
            if any(map(str.isalnum, sentence)):
                yield sentence


def units(text: str) -> Iterator[str]:
    """Split a text into plain lines of at most 60 tokens; code blocks are left out.

    A longer line becomes several: sentences, as many together as fit.
    """
    for raw in _prose(text):
        line = plain(raw)
        if estimate_text(line) <= LINE_TOKENS:
            yield line
            continue
        unit = ""
        for sentence in _SENTENCE_END.split(line):
            longer = f"{unit} {sentence}".strip()
            if unit and estimate_text(longer) > LINE_TOKENS:
                yield clip(unit, LINE_TOKENS)
                longer = sentence
            unit = longer
        yield clip(unit, LINE_TOKENS)


def flat(text: str) -> str:
    """Write text as one line without control characters."""
    return " ".join(_CONTROL.sub(" ", text).split())


def plain(text: str) -> str:
    """Write text as one line without ornaments, speakers and role markers, however many."""
    line = flat(text).replace(JOINT, " ")
    while (barer := _ORNAMENT.sub("", without_roles(line))) != line:
        line = barer
    return line


def span(text: str) -> str:
    """Set a text in backticks: a quotation, not an order or a turn of a conversation."""
    return f"`{flat(text.replace('`', chr(39)))}`"


def quoted(text: str) -> str:
    """Quote words of a person or of the agent, in backticks where they read as an order."""
    if is_order(text):
        return span(text)
    return text if text.startswith("`") else f"“{text}”"


def is_heading(line: str, *, bullet: str = "- ") -> bool:
    """Return whether `line` after its bullet would open a section of a summary."""
    return any(part.opens for part in outline(f"{bullet}{line}"))


def _prose(text: str) -> list[str]:
    return _CODE_BLOCK.sub("\n", NOTE.sub(" ", text)).splitlines()
