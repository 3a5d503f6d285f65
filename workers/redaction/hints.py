"""Words without which a pattern cannot match: looked for first, which is far quicker.

Patterns for secrets are tried at every character of a text, and nearly every text holds none.
"""

from __future__ import annotations

from collections.abc import Iterable

# What `re.IGNORECASE` takes for these letters besides what `str.lower` makes of their capitals.
_TAKEN_FOR = {"\u0130": "i", "\u0131": "i", "\u017f": "s"}


def folded(text: str) -> str:
    """Give `text` in lower case, as `re.IGNORECASE` compares it with the letters of hints."""
    if not text.isascii():
        for letter, plain in _TAKEN_FOR.items():
            text = text.replace(letter, plain)
    return text.lower()


def holds_any(folded_text: str, hints: Iterable[str]) -> bool:
    """Whether one of `hints`, words in lower case, is part of a text that was `folded`."""
    return any(hint in folded_text for hint in hints)
