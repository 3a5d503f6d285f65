"""What is stored of one session, read in plain SQL behind the back of all statements of ours."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sqlalchemy import TextClause
from sqlalchemy import text as sql

from storage.conversations.payload import join, load
from storage.conversations.rows import Kind, Origin, Row
from storage.conversations.sessions import SessionRecord
from storage.engine import Database
from storage.jobs import JobKind, JobState
from storage.types import unescape

Shown = tuple[Any, ...]
"""A row of the view without what distinguishes marker rows: (position, is marker, …)."""


@dataclass(frozen=True, slots=True)
class StoredRow:
    """A row of `messages`, marker or message."""

    id: int
    position: int
    kind: str
    role: str | None
    origin: str | None
    opens_turn: int
    tokens: int
    active: int
    compacted: int
    absorbed_by: int | None
    summary_id: int | None
    call_ids: str | None
    answer_ids: str | None
    content: str | None
    fields: str | None
    pruned: str | None
    spared_tokens: int | None
    created_at: int

    @property
    def whole_tokens(self) -> int:
        """What the row takes in full."""
        return self.tokens + (self.spared_tokens or 0 if self.pruned is not None else 0)

    @property
    def is_marker(self) -> bool:
        return self.kind != "message"

    @property
    def by_person(self) -> bool:
        return self.role == "user" and self.origin == "person"

    @property
    def said(self) -> tuple[Any, ...]:
        """What never changes of a row."""
        return (
            self.id,
            self.position,
            self.kind,
            self.role,
            self.content,
            self.fields,
            self.whole_tokens,
        )


@dataclass(frozen=True, slots=True)
class StoredSummary:
    """A row of `summaries`."""

    id: int
    kind: str
    status: str
    text: str
    verbatim: str
    tokens: int
    first_position: int
    last_position: int
    replaces: int | None
    cursor_before: int


@dataclass(frozen=True, slots=True)
class StoredGuard:
    """A row of `guards`."""

    count: int
    subject: int | None
    until_at: int | None


@dataclass(frozen=True, slots=True)
class StoredJob:
    """A row of `jobs`."""

    id: int
    session_key: int
    kind: JobKind
    state: JobState
    trigger: str
    run_at: int
    attempt: int
    tries: int
    fence: int
    again: int
    reason: str | None


@dataclass(frozen=True)
class State:
    """Everything that is stored of a session at one moment."""

    session: SessionRecord
    cursor: int
    rows: tuple[StoredRow, ...]
    summaries: dict[int, StoredSummary]
    guards: dict[str, StoredGuard]
    jobs: tuple[StoredJob, ...]

    @cached_property
    def live(self) -> list[StoredRow]:
        return [row for row in self.rows if row.active]

    @cached_property
    def messages(self) -> list[StoredRow]:
        return [row for row in self.rows if not row.is_marker]

    @cached_property
    def view(self) -> list[Row]:
        """The live view as renderers take it."""
        return [self._row(row) for row in self.live]

    @property
    def running(self) -> StoredJob | None:
        return next((job for job in self.jobs if job.state == JobState.RUNNING), None)

    @property
    def live_summaries(self) -> list[StoredSummary]:
        return [one for one in self.summaries.values() if one.status == "live"]

    @cached_property
    def shown(self) -> list[Shown]:
        """The live view without the row ids of markers."""
        return [
            (row.position, row.is_marker, row.kind, row.whole_tokens, *self._text(row))
            for row in self.live
        ]

    @cached_property
    def unchanged(self) -> tuple[Any, ...]:
        """What no attempt that fails may change: rows, summaries, cursor and counters."""
        record = self.session
        counters = (
            record.revision,
            record.next_position,
            record.live_messages,
            record.live_tokens,
            record.passes,
            record.tokens_saved,
        )
        return (self.rows, self.summaries, self.cursor, counters)

    def _text(self, row: StoredRow) -> tuple[str | None, str | None]:
        if row.summary_id is None:
            return row.content, row.fields
        summary = self.summaries[row.summary_id]
        return summary.text, summary.verbatim

    def _row(self, row: StoredRow) -> Row:
        shown = self.summaries[row.summary_id] if row.summary_id else None
        content, fields = _plain(row.content), _plain(row.fields)
        return Row(
            position=row.position,
            tokens=row.tokens,
            id=row.id,
            kind=Kind(row.kind),
            role=row.role,
            origin=Origin(row.origin) if row.origin else None,
            opens_turn=bool(row.opens_turn),
            calls=tuple(json.loads(_plain(row.call_ids) or "[]")),
            answers=tuple(json.loads(_plain(row.answer_ids) or "[]")),
            message=None if shown else _message(row, content, fields),
            summary=_plain(shown.text) if shown else None,
            verbatim=(_plain(shown.verbatim) or "") if shown else "",
            summary_id=row.summary_id,
        )


def _message(row: StoredRow, content: str | None, fields: str | None) -> dict[str, Any]:
    short = _plain(row.pruned)
    return join(row.role, content, fields) if short is None else load(short)


def _plain(text: str | None) -> str | None:
    return None if text is None else unescape(text)


def read_state(database: Database, key: int) -> State:
    """Read it, in one snapshot. In plain text, since a test does this at every step."""
    with database.read() as connection:

        def rows(query: TextClause) -> list[dict[str, Any]]:
            return [dict(row) for row in connection.execute(query, {"key": key}).mappings()]

        (record,) = rows(_SESSION)
        cursor = rows(_CURSOR)
        found = [StoredRow(**row) for row in rows(_ROWS)]
        summaries = [StoredSummary(**row) for row in rows(_SUMMARIES)]
        return State(
            session=SessionRecord(**{**record, "turn_open": bool(record["turn_open"])}),
            cursor=cursor[0]["position"] if cursor else 0,
            rows=tuple(sorted(found, key=lambda row: (row.position, row.is_marker, row.id))),
            summaries={summary.id: summary for summary in summaries},
            guards={row.pop("name"): StoredGuard(**row) for row in rows(_GUARDS)},
            jobs=tuple(StoredJob(**row) for row in rows(_JOBS)),
        )


def _select(record: type[Any], table: str, where: str = "session_key = :key") -> TextClause:
    columns = ", ".join(f'"{name}"' for name in record.__dataclass_fields__)
    return sql(f"SELECT {columns} FROM {table} WHERE {where} ORDER BY 1")


_SESSION = _select(SessionRecord, "sessions", "key = :key")
_CURSOR = sql("SELECT position FROM cursors WHERE session_key = :key AND name = 'micro'")
_ROWS = _select(StoredRow, "messages")
_SUMMARIES = _select(StoredSummary, "summaries")
_JOBS = _select(StoredJob, "jobs")
_GUARDS = sql("SELECT name, count, subject, until_at FROM guards WHERE session_key = :key")
