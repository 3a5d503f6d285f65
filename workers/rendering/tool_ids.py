"""Call ids as Anthropic takes them: letters, digits, `_` and `-`, at most 64, each one once."""

from __future__ import annotations

import re

_INVALID = re.compile(r"[^A-Za-z0-9_-]")
_MAX_LENGTH = 64


class ToolIds:
    """Gives out the ids of one view. A valid id that is new keeps its form.

    An id depends on the calls before it alone, so a view that grows at its end keeps its bytes.
    """

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._times: dict[str, int] = {}

    def claim(self, stored: str) -> str:
        """The id to show for the next call, whose stored id is `stored`."""
        base = _INVALID.sub("_", stored)[:_MAX_LENGTH] or "call"
        shown = base
        while shown in self._taken:
            self._times[base] = self._times.get(base, 1) + 1
            suffix = f"_{self._times[base]}"
            shown = base[: _MAX_LENGTH - len(suffix)] + suffix
        self._taken.add(shown)
        return shown
