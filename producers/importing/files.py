"""What kind of file it is."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path


class Format(StrEnum):
    """LINES: one session a line, as chat messages or as Hermes Agent exports them. STATE: a
    `state.db` of Hermes Agent."""

    LINES = "lines"
    STATE = "state"


class ImportRefused(ValueError):
    """A file cannot be imported, or not any further. The message names file, place and problem,
    and holds no text of a conversation."""


def recognise(path: Path) -> Format:
    """Look at the first bytes of a file. Raises `ImportRefused` where it cannot be read."""
    try:
        with path.open("rb") as file:
            start = file.read(16)
    except OSError as error:
        raise ImportRefused(f"{path}: cannot be read ({error.strerror})") from error
    return Format.STATE if start == b"SQLite format 3\0" else Format.LINES
