"""Sessions in a file of JSON lines: chat transcripts, or exports of Hermes Agent."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from producers.importing.files import ImportRefused
from producers.importing.hermes_rows import at_ms
from producers.importing.lineage import trace
from producers.importing.source import BadRow, SourceRow, SourceSession, SourceSummary
from producers.importing.summaries import shown_summary

_HERMES = frozenset({"started_at", "message_count", "user_id", "session_key", "end_reason"})
"""Fields of a session that only exports of Hermes Agent have."""


@dataclass(frozen=True, slots=True)
class Read:
    """One line: its session, or what is wrong with it; and how many bytes of the file are read."""

    found: SourceSession | BadRow
    bytes_read: int


def read_lines(path: Path) -> Iterator[Read]:
    """Every line of a file that is not blank. Raises `ImportRefused` where it cannot be read."""
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


def hermes_session(
    facts: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    *,
    session_id: str,
    place: str,
    prompt: str | None = None,
) -> SourceSession:
    """A session of Hermes Agent from its row and those of its messages."""
    lineage = trace(rows)
    own = facts.get("system_prompt")
    return SourceSession(
        id=session_id,
        place=place,
        rows=lineage.rows,
        summaries=lineage.summaries,
        system_prompt=prompt or (own if isinstance(own, str) and own else None),
        source=_text(facts, "source"),
        title=_text(facts, "title"),
        model=_text(facts, "model"),
        chat_id=_text(facts, "chat_id"),
        thread_id=_text(facts, "thread_id") or "",
        started_at=at_ms(facts.get("started_at")),
        active_at=at_ms(facts.get("last_activity_at")) or _last(lineage.rows),
        ended_at=at_ms(facts.get("ended_at")),
        left_out=lineage.left_out,
    )


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
        title=_text(facts, "title"),
        model=_text(facts, "model"),
        started_at=at_ms(facts.get("created_at")),
        active_at=at_ms(facts.get("updated_at")),
    )


def _last(rows: Sequence[SourceRow]) -> int | None:
    return max((row.at for row in rows if row.at is not None), default=None)


def _text(facts: Mapping[str, Any], name: str) -> str | None:
    value = facts.get(name)
    return value if isinstance(value, str) and value.strip() else None
