"""Recognition of summaries in transcripts of other programs, which mark them only by their text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from workers.conversation.markers import unframe

_OPENINGS = ("[CONTEXT COMPACTION", "[CONTEXT SUMMARY]")
_MERGED = "[PRIOR CONTEXT"
_END = re.compile(r"\n*-{2,}\s*END OF CONTEXT SUMMARY[^\n]*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Shown:
    """The summary in a message.

    `merged` says that the summary was written into a row of the conversation.
    """

    text: str
    merged: bool


def shown_summary(content: Any) -> Shown | None:
    """Return the summary that a message shows: one of ours, or one of Hermes Agent's.

    None where there is none. A summary of Hermes Agent is recognised by its first words.
    """
    text = _text(content)
    if text is None:
        return None
    ours = unframe(text)
    if ours is not None:
        return Shown(ours, merged=False)
    body = text.lstrip()
    if body.startswith(_OPENINGS):
        summary, _, behind = _split_end(body)
        return Shown(_without_opening(summary), merged=bool(behind.strip()))
    if body.startswith(_MERGED):
        starts = [at for opening in _OPENINGS if (at := body.find(opening)) >= 0]
        if starts:
            summary, _, _ = _split_end(body[min(starts) :])
            return Shown(_without_opening(summary), merged=True)
    return None


def _text(content: Any) -> str | None:
    if isinstance(content, str):
        return content
    if isinstance(content, list) and content:
        first = content[0]
        if isinstance(first, dict) and isinstance(first.get("text"), str):
            return str(first["text"])
    return None


def _split_end(text: str) -> tuple[str, str, str]:
    found = _END.search(text)
    if found is None:
        return text, "", ""
    return text[: found.start()], found[0], text[found.end() :]


def _without_opening(text: str) -> str:
    """Return the summary after its opening paragraph."""
    _, gap, rest = text.partition("\n\n")
    if gap and rest.strip():
        return rest.strip()
    _, gap, rest = text.partition("\n")
    if gap and rest.strip():
        return rest.strip()
    # One line: the label ends with its bracket or colon.
    return re.sub(r"^\[[^\]]*\]:?\s*", "", text).strip() or text.strip()
