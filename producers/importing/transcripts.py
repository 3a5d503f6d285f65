"""Reading of import files: JSON lines of chats or of Hermes Agent, or its `state.db`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from producers.importing.hermes import at_ms, hermes_session, text_of
from producers.importing.source import (
    BadRow,
    ImportRefused,
    SourceRow,
    SourceSession,
    SourceSummary,
)
from producers.importing.summaries import shown_summary

_HERMES = frozenset({"started_at", "message_count", "user_id", "session_key", "end_reason"})
"""Fields of a session that occur only in exports of Hermes Agent."""


class Format(StrEnum):
    """The format of a file.

    LINES: one session a line, as chat messages or as Hermes Agent exports them. STATE: a `state.db`
    of Hermes Agent.
    """

    LINES = "lines"
    STATE = "state"


@dataclass(frozen=True, slots=True)
class Read:
    """A line: its session, or its problem, and the bytes of the file that were read so far."""

    found: SourceSession | BadRow
    bytes_read: int


def recognise(path: Path) -> Format:
    """Recognise the format by the first bytes of a file. Raises `ImportRefused` if unreadable."""
    try:
        with path.open("rb") as file:
            start = file.read(16)
    except OSError as error:
        raise ImportRefused(f"{path}: cannot be read ({error.strerror})") from error
    return Format.STATE if start == b"SQLite format 3\0" else Format.LINES


def read_lines(path: Path) -> Iterator[Read]:
    """Read every line that is not blank. Raises `ImportRefused` if the file is unreadable."""
    done = 0
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                done += len(line)
                if line.strip():
                    yield Read(_session(path, number, line), done)
    except OSError as error:
        raise ImportRefused(f"{path}: cannot be read ({error.strerror})") from error


def _session(path: Path, number: int, line: bytes) -> SourceSession | BadRow:
    place = f"{path.name}, line {number}"
    try:
        found = json.loads(line.decode("utf-8-sig" if number == 1 else "utf-8"))
    except UnicodeDecodeError:
        return BadRow(place, "is no UTF-8")
    except (ValueError, RecursionError):
        return BadRow(place, "is no JSON")
    messages = found.get("messages") if isinstance(found, dict) else found
    if not isinstance(messages, list):
        return BadRow(place, "holds no list `messages`")
    facts: Mapping[str, Any] = found if isinstance(found, dict) else {}
    session_id = facts.get("id") or facts.get("session_id") or f"{path.stem}-{number}"
    if not isinstance(session_id, str):
        return BadRow(place, "has an id that is no text", max(1, len(messages)))
    if _HERMES & set(facts) and all(isinstance(row, dict) for row in messages):
        return hermes_session(facts, messages, session_id=session_id, place=place)
    return _chat(facts, messages, session_id=session_id, place=place)


def _chat(
    facts: Mapping[str, Any], messages: Sequence[Any], *, session_id: str, place: str
) -> SourceSession:
    rows: list[SourceRow] = []
    summaries: list[SourceSummary] = []
    for number, message in enumerate(messages):
        content = message.get("content") if isinstance(message, dict) else None
        shown = None
        if isinstance(message, dict) and message.get("role") in ("user", "assistant"):
            shown = shown_summary(content)
        if shown is not None and not shown.merged:
            summaries.append(SourceSummary(shown.text, len(rows)))
        else:
            rows.append(SourceRow(number, message))
    return SourceSession(
        id=session_id,
        place=place,
        rows=tuple(rows),
        summaries=tuple(summaries),
        title=text_of(facts, "title"),
        model=text_of(facts, "model"),
        started_at=at_ms(facts.get("created_at")),
        active_at=at_ms(facts.get("updated_at")),
    )
