"""The lines around the data of a prompt, which nothing inside the data can forge."""

from __future__ import annotations

import re
from hashlib import sha256

from workers.summariser.passages import MARK_CHARS

FENCE = re.compile(rf"^\[[0-9a-f]{{{MARK_CHARS}}} (?:begin|end)\]", re.MULTILINE)
"""Finds those lines; an answer that has one repeats its prompt."""


def mark_for(*texts: str) -> str:
    """Make a mark that does not occur in `texts`, the same for the same texts."""
    data = "\x00".join(texts)
    mark = sha256(data.encode("utf-8", "surrogatepass")).hexdigest()[:MARK_CHARS]
    while mark in data:
        mark = sha256(mark.encode()).hexdigest()[:MARK_CHARS]
    return mark


def fenced(mark: str, title: str, text: str) -> str:
    """Write `text` as one titled section of the data."""
    return f"[{mark} begin] {title}\n{text}\n[{mark} end]"


def sendable(text: str) -> str:
    """Give `text` so that it can be sent: half a surrogate pair is no UTF-8, and servers refuse
    NUL."""
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return whole.replace("\x00", "\ufffd")
