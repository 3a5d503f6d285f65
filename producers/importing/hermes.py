"""Reading of sessions of Hermes Agent: exported rows, and its `state.db`.

A compaction there writes the whole live view again and marks the old rows as archived, so a message
that stays live for k compactions is stored k + 1 times, once live. Rows that a user took back are
neither live nor archived, and in newer versions neither are originals with a live copy. Hermes
Agent may run meanwhile: nothing is written to its file.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from producers.importing.source import (
    BadRow,
    Fate,
    ImportRefused,
    SourceRow,
    SourceSession,
    SourceSummary,
    State,
)
from producers.importing.summaries import Shown, shown_summary
from storage.conversations.rows import Origin

_KEPT = (
    "reasoning",
    "reasoning_content",
    "reasoning_details",
    "codex_reasoning_items",
    "codex_message_items",
)
"""Fields that a provider requires back unchanged."""

_JSON_FIELDS = frozenset({"reasoning_details", "codex_reasoning_items", "codex_message_items"})

_BUSY_SECONDS = 30
_BY_START = "SELECT id FROM sessions ORDER BY started_at, id"
_BY_ID = "SELECT id FROM sessions ORDER BY id"


def hermes_session(
    facts: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    *,
    session_id: str,
    place: str,
    prompt: str | None = None,
) -> SourceSession:
    """Build a session from its row and those of its messages."""
    lineage = _trace(rows)
    own = facts.get("system_prompt")
    return SourceSession(
        id=session_id,
        place=place,
        rows=lineage.rows,
        summaries=lineage.summaries,
        system_prompt=prompt or (own if isinstance(own, str) and own else None),
        source=text_of(facts, "source"),
        title=text_of(facts, "title"),
        model=text_of(facts, "model"),
        chat_id=text_of(facts, "chat_id"),
        thread_id=text_of(facts, "thread_id") or "",
        started_at=at_ms(facts.get("started_at")),
        active_at=at_ms(facts.get("last_activity_at")) or _last(lineage.rows),
        ended_at=at_ms(facts.get("ended_at")),
        left_out=lineage.left_out,
    )


def text_of(facts: Mapping[str, Any], name: str) -> str | None:
    """Return a non-blank text, None for anything else."""
    value = facts.get(name)
    return value if isinstance(value, str) and value.strip() else None


def at_ms(seconds: Any) -> int | None:
    """Convert a time in seconds since 1970 to milliseconds; None for anything else."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return None
    # A number that is not between 2001 and 2100 is not a time.
    return int(seconds * 1000) if 1e9 <= seconds <= 4.1e9 else None


class StateFile:
    """The sessions of a file. Each is read in one short transaction, so Hermes Agent can run on."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self._path = path
        self._connection = connection
        self._sessions = self._columns("sessions")
        messages = self._columns("messages")
        if "id" not in self._sessions or not {"session_id", "role", "content"} <= messages:
            raise ImportRefused(f"{path}: is a SQLite file, but no state.db of Hermes Agent")
        self._has_prompts = bool(self._columns("system_prompts"))

    def ids(self) -> list[str]:
        """Return the ids of all sessions, those that started first in front."""
        dated = "started_at" in self._sessions
        return [row[0] for row in self._rows(_BY_START if dated else _BY_ID)]

    def read(self, session_id: str) -> SourceSession | BadRow | None:
        """Read one session; None where it was deleted meanwhile."""
        place = f"{self._path.name}, session {session_id}"
        self._connection.execute("BEGIN")
        try:
            found = self._rows("SELECT * FROM sessions WHERE id = ?", session_id)
            if not found:
                return None
            facts = dict(found[0])
            rows = self._rows("SELECT * FROM messages WHERE session_id = ? ORDER BY id", session_id)
            prompt = self._prompt(facts)
        finally:
            self._connection.execute("ROLLBACK")
        return hermes_session(
            facts, [dict(row) for row in rows], session_id=session_id, place=place, prompt=prompt
        )

    def _prompt(self, facts: dict[str, Any]) -> str | None:
        wanted = facts.get("system_prompt_hash")
        if not self._has_prompts or not wanted:
            return None
        found = self._rows("SELECT prompt FROM system_prompts WHERE hash = ?", wanted)
        return found[0][0] if found and isinstance(found[0][0], str) else None

    def _columns(self, table: str) -> set[str]:
        return {row[0] for row in self._rows("SELECT name FROM pragma_table_info(?)", table)}

    def _rows(self, statement: str, *given: Any) -> list[sqlite3.Row]:
        try:
            return self._connection.execute(statement, given).fetchall()
        except sqlite3.Error as error:
            raise ImportRefused(f"{self._path}: cannot be read ({error})") from error


@contextmanager
def open_state(path: Path) -> Iterator[StateFile]:
    """Open a `state.db` for reading. Raises `ImportRefused` for any other file."""
    connection = _connect(path)
    try:
        connection.row_factory = sqlite3.Row
        # Text that is not UTF-8 must not end the import of other sessions.
        connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        yield StateFile(path, connection)
    finally:
        connection.close()


def _connect(path: Path) -> sqlite3.Connection:
    address = f"file:{quote(str(path.resolve()))}?mode=ro"
    try:
        connection = sqlite3.connect(address, uri=True, timeout=_BUSY_SECONDS, isolation_level=None)
        try:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.OperationalError:
            connection.close()
            if Path(f"{path}-wal").exists():
                raise
            # No write-ahead log can be made here, but the file is complete and not open elsewhere.
            connection = sqlite3.connect(f"{address}&immutable=1", uri=True, isolation_level=None)
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.Error as error:
        raise ImportRefused(f"{path}: cannot be read ({error})") from error
    return connection


@dataclass(frozen=True, slots=True)
class _Lineage:
    """The rows and summaries of a session. `left_out` counts the other rows by their fate."""

    rows: tuple[SourceRow, ...]
    summaries: tuple[SourceSummary, ...]
    left_out: Mapping[str, int]


@dataclass(slots=True)
class _Original:
    number: int
    message: Mapping[str, Any]
    at: int | None
    live: bool = False
    archived: bool = False
    copies: int = 0
    origin: Origin | None = None

    @property
    def rewound(self) -> bool:
        return not self.live and not self.archived


def _trace(rows: Sequence[Mapping[str, Any]]) -> _Lineage:
    """Read a session's rows, in order of their ids.

    Rows without flags are live, since exports contain only live ones.
    """
    originals: dict[str, _Original] = {}
    by_time: dict[tuple[Any, Any], _Original] = {}
    shown: list[tuple[int, Shown]] = []
    left: Counter[str] = Counter()
    for row in rows:
        message = _chat_message(row)
        live, archived = _flag(row, "active", 1), _flag(row, "compacted", 0)
        summary = shown_summary(message["content"]) if message["role"] != "system" else None
        number = row.get("id")
        number = number if isinstance(number, int) else len(originals) + len(shown)
        moment = (message["role"], row.get("timestamp"))
        if summary is not None:
            if not live:
                left[Fate.OLD_SUMMARY] += 1
                continue
            if not summary.merged:
                shown.append((number, summary))
                continue
            host = by_time.get(moment) if row.get("timestamp") is not None else None
            if host is not None:
                # The row into which it was written is also stored by itself.
                host.live = True
                shown.append((number, summary))
                continue
        original = originals.get(key := _identity(message, row))
        if original is None:
            original = _Original(number, message, at_ms(row.get("timestamp")))
            if summary is not None:
                # Its request is lost, and no person wrote the whole of it.
                original.origin = Origin.RUNTIME if message["role"] == "user" else None
            originals[key] = original
            by_time.setdefault(moment, original)
        else:
            original.copies += 1
        original.live |= live
        original.archived |= not live and archived
    return _lineage_of(list(originals.values()), shown, left)


def _lineage_of(
    originals: Sequence[_Original], shown: Sequence[tuple[int, Shown]], left: Counter[str]
) -> _Lineage:
    left[Fate.COPY] += sum(one.copies for one in originals)
    left[Fate.REWOUND] += sum(one.rewound for one in originals)
    kept = sorted((one for one in originals if not one.rewound), key=lambda one: one.number)
    rows = tuple(
        SourceRow(
            number=one.number,
            message=one.message,
            state=State.LIVE if one.live else State.ARCHIVED,
            origin=one.origin,
            at=one.at,
        )
        for one in kept
    )
    return _Lineage(rows, _placed(rows, shown), {name: many for name, many in left.items() if many})


def _placed(
    rows: Sequence[SourceRow], shown: Sequence[tuple[int, Shown]]
) -> tuple[SourceSummary, ...]:
    """Place summaries after the last row that they cover, else where they are."""
    archived = [place for place, row in enumerate(rows) if row.state is State.ARCHIVED]
    return tuple(
        SourceSummary(
            one.text,
            archived[-1] + 1 if archived else sum(row.number < number for row in rows),
        )
        for number, one in shown
    )


def _identity(message: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    """Return a key that copies of a message share.

    Later copies may have shortened text of tool rows and of calls.
    """
    moment = row.get("timestamp")
    calls = message.get("tool_calls")
    ids = calls
    if isinstance(calls, list):
        ids = [call.get("id") for call in calls if isinstance(call, dict)]
    text = message["content"]
    if moment is not None and message["role"] == "tool" and message.get("tool_call_id"):
        text = None
    if moment is None:
        # Without a time a copy cannot be distinguished from a repetition.
        return f"#{row.get('id')}/{id(row)}"
    return json.dumps([message["role"], moment, message.get("tool_call_id"), ids, text])


def _flag(row: Mapping[str, Any], name: str, default: int) -> bool:
    value = row.get(name)
    return bool(default if value is None else value)


def _last(rows: Sequence[SourceRow]) -> int | None:
    return max((row.at for row in rows if row.at is not None), default=None)


def _chat_message(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the message of a row, with content parts and tool calls decoded.

    Unreadable values stay as they are, so that `workers.conversation.messages.check` reports them.
    """
    message: dict[str, Any] = {"role": row.get("role"), "content": _content(row.get("content"))}
    calls = _decoded(row.get("tool_calls"))
    if calls:
        message["tool_calls"] = calls
    if row.get("tool_call_id"):
        message["tool_call_id"] = row["tool_call_id"]
    if row.get("tool_name") and message["role"] == "tool":
        message["name"] = row["tool_name"]
    for name in _KEPT:
        value = row.get(name)
        if value is not None and value != "":
            message[name] = _decoded(value) if name in _JSON_FIELDS else value
    if message["content"] is None and message["role"] != "assistant":
        message["content"] = ""
    return message


def _content(value: Any) -> Any:
    if isinstance(value, str) and value.startswith("[{"):
        parts = _decoded(value)
        if isinstance(parts, list) and all(
            isinstance(part, dict) and isinstance(part.get("type"), str) for part in parts
        ):
            return parts
    return value


def _decoded(value: Any) -> Any:
    if not isinstance(value, str) or not value:
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value
