"""The handle in a short form, with which its original is fetched."""

from __future__ import annotations

import re
from dataclasses import dataclass

from storage.errors import InputError

_HANDLE = re.compile(r"out-(0|[1-9][0-9]{0,17})-(0|[1-9][0-9]{0,17})")


class HandleError(InputError):
    """That is no handle of tool output. One stands in the note that took the output's place."""

    def __init__(self, given: str) -> None:
        super().__init__(
            f"{given[:60]!r} is no handle of tool output; one looks like out-12-345 and stands at "
            "the end of the note"
        )


@dataclass(frozen=True, slots=True)
class Handle:
    """Which message is meant: the key of its session and its position there.

    Both never mean another message, and neither depends on the database that is used.
    """

    session_key: int
    position: int

    def __str__(self) -> str:
        return f"out-{self.session_key}-{self.position}"

    @classmethod
    def parse(cls, text: str) -> Handle:
        """Read a handle as it stands in a note, blanks around it aside. Raises `HandleError`."""
        found = _HANDLE.fullmatch(text.strip())
        if found is None:
            raise HandleError(text)
        return cls(int(found[1]), int(found[2]))
