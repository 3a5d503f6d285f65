"""Titles of sessions."""

from __future__ import annotations

import unicodedata

MAX_TITLE = 100


def clean_title(text: str) -> str | None:
    """Return a title of at most 100 characters without control, zero-width and direction
    characters.

    None where nothing is left of it.
    """
    visible = "".join(
        " " if c.isspace() else c for c in text if c.isspace() or unicodedata.category(c)[0] != "C"
    )
    return " ".join(visible.split())[:MAX_TITLE].rstrip() or None


def numbered(title: str, number: int) -> str:
    """Return the title of the `number`-th session with this title: the first has it as it is."""
    if number == 1:
        return title
    mark = f" #{number}"
    return title[: MAX_TITLE - len(mark)].rstrip() + mark
