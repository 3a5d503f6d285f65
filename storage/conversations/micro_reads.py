"""Reads for the decision about a micro pass: the state of its session, and the relevant rows.

Both are one statement each. Their cost depends on what is not absorbed yet and on the size of the
tail, not on the length of the session.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    Connection,
    Text,
    bindparam,
    exists,
    func,
    literal,
    literal_column,
    select,
    type_coerce,
)
from sqlalchemy import text as sql

from storage import guards
from storage.conversations import messages, sessions
from storage.conversations.cursors import CursorName
from storage.conversations.outlines import MARKER_LAST, OUTLINE, outlines
from storage.conversations.rows import Row
from storage.conversations.sessions import SessionRecord
from storage.engine import Database, clock
from storage.errors import SessionNotFound
from storage.guards import GuardName, GuardRecord
from storage.models import (
    LIVE,
    LIVE_MARKER,
    Answer,
    Cursor,
    Guard,
    Message,
    Session,
    Summary,
    table_of,
)
from storage.types import unescape


@dataclass(frozen=True, slots=True)
class MicroState:
    """A session with its guards and the cursor `micro`; `has_answers` is False where no answer is
    stored for it."""

    session: SessionRecord
    cursor: int
    guards: Mapping[GuardName, GuardRecord]
    has_answers: bool = True


def read_state(connection: Connection, database: Database, key: int) -> MicroState:
    """Return the state that every pass begins with. Raises `SessionNotFound`."""
    statement = _state(database.dialect, database.offset_ms)
    rows = connection.execute(statement, {"key": key}).all()
    if not rows:
        raise SessionNotFound(str(key), "")
    many = len(sessions.COLUMNS)
    cursor, has_answers = rows[0][many : many + 2]
    held = (row[many + 2 :] for row in rows)
    return MicroState(
        sessions.record_of(rows[0][:many]),
        cursor,
        {GuardName(name): GuardRecord(*record) for name, *record in held if name is not None},
        bool(has_answers),
    )


@cache
def _state(dialect: str, offset_ms: int) -> Any:
    """Build the statement of `read_state` once: every pass runs it."""
    one, at, guard = table_of(Session), table_of(Cursor), table_of(Guard)
    answer = table_of(Answer).c
    is_cursor = (at.c.session_key == one.c.key) & (at.c.name == CursorName.MICRO)
    is_guard = (guard.c.session_key == one.c.key) & guards.KNOWN
    return (
        select(
            *sessions.COLUMNS,
            func.coalesce(at.c.position, literal(0, BigInteger)),
            exists().where(answer.session_key == one.c.key),
            guard.c.name,
            *guards.fields(clock(dialect, offset_ms)),
        )
        .select_from(one.outerjoin(at, is_cursor).outerjoin(guard, is_guard))
        .where(one.c.key == bindparam("key"))
    )


@dataclass(frozen=True, slots=True)
class Part:
    """Rows at one end of a sequence; `is_whole` says that there are no more of them."""

    rows: Sequence[Row]
    is_whole: bool


@dataclass(frozen=True, slots=True)
class View:
    """The parts of a live view that a pass needs, read in one snapshot with `connection`.

    `markers` have their summaries; all other rows are outlines, in view order. `head` is a
    beginning of the view, `ahead` one of the rows from the cursor on, and `end` its last rows.
    """

    connection: Connection
    key: int
    markers: Sequence[Row]
    head: Part
    ahead: Part
    end: Part

    def beginning(self, limit: int) -> Part:
        """Read the first `limit` rows of the view."""
        rows = messages.read_forward(self.connection, self.key, start=0, limit=limit)
        return Part(rows, is_whole=len(rows) < limit)

    def ending(self, limit: int) -> Part:
        """Read the last `limit` rows of the view."""
        rows = messages.read_backward(self.connection, self.key, limit=limit)
        return Part(rows, is_whole=len(rows) < limit)

    def newest_request(self, *, before: int | None = None) -> int | None:
        """Return the position of the newest request, or of the newest before position `before`.

        Queries the database only where the request is older than the rows that were read.
        """
        known, ahead = self.end.rows, self.ahead
        if before is not None:
            reaches = ahead.is_whole or (ahead.rows and before <= ahead.rows[-1].position)
            known = ahead.rows if reaches else ()
        for row in reversed(known):
            if row.opens_turn and (before is None or row.position < before):
                return row.position
        return messages.newest_request(self.connection, self.key, before=before)


_M = Message
_MARKER, _HEAD, _AHEAD, _END = range(4)
_COLUMNS = len(OUTLINE)
_KEY = bindparam("key", type_=BigInteger)
_NOTHING = literal_column("NULL", Text)
_LIVE = select(*OUTLINE, MARKER_LAST.label("marker_last")).where(_M.session_key == _KEY, sql(LIVE))
_FORWARD = _LIVE.order_by(_M.position, MARKER_LAST)
_MARKERS = (
    select(
        *OUTLINE,
        literal_column("1").label("marker_last"),
        type_coerce(Summary.text, Text).label("summary"),
        type_coerce(Summary.verbatim, Text).label("verbatim"),
        literal_column(str(_MARKER)).label("part"),
    )
    .outerjoin(Summary, Summary.id == _M.summary_id)
    .where(_M.session_key == _KEY, sql("messages." + LIVE_MARKER))
)


def _part(number: int, rows: Any, name: str) -> Any:
    limited = rows.limit(bindparam(name, type_=BigInteger)).subquery(f"part_{name}")
    return select(limited, _NOTHING, _NOTHING, literal_column(str(number)))


_PARTS = _MARKERS.union_all(
    _part(_HEAD, _FORWARD, "head"),
    _part(_AHEAD, _FORWARD.where(_M.position >= bindparam("cursor", type_=BigInteger)), "ahead"),
    _part(_END, _LIVE.order_by(_M.position.desc(), MARKER_LAST.desc()), "end"),
).order_by("part", "position", "marker_last")


def read_view(
    connection: Connection, key: int, *, cursor: int, head: int, ahead: int, end: int
) -> View:
    """Read the markers, the first `head` rows of the view, the first `ahead` ones from position
    `cursor` on, and the last `end` ones.

    Where the rows from the cursor on are read whole, they are the end of the view too, after the
    last marker before them if there is one.
    """
    limits = {"head": head if cursor else 0, "ahead": ahead, "end": end}
    found = connection.execute(_PARTS, {"key": key, "cursor": cursor, **limits}).all()
    parts: dict[Any, list[Any]] = {_MARKER: [], _HEAD: [], _AHEAD: [], _END: []}
    for row in found:
        parts[row[-1]].append(row)
    rows = {number: outlines(row[:_COLUMNS] for row in part) for number, part in parts.items()}
    markers = [
        replace(
            marker,
            summary=None if row.summary is None else unescape(row.summary),
            verbatim=unescape(row.verbatim or ""),
        )
        for marker, row in zip(rows[_MARKER], parts[_MARKER], strict=True)
    ]
    from_cursor = Part(rows[_AHEAD], is_whole=len(rows[_AHEAD]) < ahead)
    return View(
        connection,
        key,
        markers=markers,
        head=Part(rows[_HEAD], is_whole=len(rows[_HEAD]) < head) if cursor else from_cursor,
        ahead=from_cursor,
        end=_end(cursor, markers, from_cursor, Part(rows[_END], is_whole=len(rows[_END]) < end)),
    )


def _end(cursor: int, markers: Sequence[Row], ahead: Part, end: Part) -> Part:
    if not ahead.is_whole:
        return end
    before = [marker for marker in markers if marker.position < cursor][-1:]
    return Part([*before, *ahead.rows], is_whole=cursor == 0)
