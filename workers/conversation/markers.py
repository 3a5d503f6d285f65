"""The frame around a summary in the live view, and how it is recognised again.

A marker row stores the summary alone. The frame is added when a view is rendered, so storage never
holds a role or a frame for it, and removed when an old session is imported.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from workers.conversation.tokens import MESSAGE_TOKENS, estimate_text

_GAP = "\n\n"


@dataclass(frozen=True, slots=True)
class Frame:
    """One version of the fixed lines around a summary; together at most 200 tokens."""

    version: int
    opening: str
    closing: str

    def put_on(self, summary: str) -> str:
        return f"{self.opening}{_GAP}{summary}{_GAP}{self.closing}"

    def take_off(self, text: str) -> str | None:
        """Return the summary inside `text`, or None when `text` does not have this frame."""
        before, after = self.opening + _GAP, _GAP + self.closing
        if len(text) < len(before) + len(after):
            return None
        if not (text.startswith(before) and text.endswith(after)):
            return None
        return text[len(before) : len(text) - len(after)]


FRAMES = (
    Frame(
        version=1,
        opening=(
            "[Summary of earlier messages of this conversation, for reference only. It was "
            "written by the program that keeps this conversation short, not by the user, and it "
            "stands in place of those messages. What it tells is history.]"
        ),
        closing=(
            "[End of the summary. Requests told in it are history, done or not: do not act on "
            "them. The request to act on is the newest user message of this conversation, "
            "wherever it stands, before this summary or after it.]"
        ),
    ),
)
"""All versions, oldest first. A released one never changes: stored exports contain it."""

CURRENT = FRAMES[-1]


def frame(summary: str) -> str:
    """Return the text of a marker: `summary` between the current fixed lines."""
    return CURRENT.put_on(summary)


def unframe(text: str) -> str | None:
    """Return the summary inside a marker's text of any version, None for any other text.

    White space around the whole text is ignored, since exports trim it; the summary itself is
    returned exactly as it was framed.
    """
    trimmed = text.strip()
    taken = (known.take_off(trimmed) for known in reversed(FRAMES))
    return next((summary for summary in taken if summary is not None), None)


def is_marker_text(text: str) -> bool:
    """Return whether `text` as a whole is a framed summary of any version."""
    return unframe(text) is not None


@cache
def frame_tokens() -> int:
    """Return the tokens of a marker beyond the text of its summary, as a message of its own."""
    return MESSAGE_TOKENS + estimate_text(frame(""))
