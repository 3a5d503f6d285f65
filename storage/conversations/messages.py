"""The rows of conversations: append, read, archive, restore, rewind."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import repeat
from typing import Any

from sqlalchemy import (
    BigInteger,
    BindParameter,
    Connection,
    RowMapping,
    Select,
    Text,
    bindparam,
    insert,
    or_,
    select,
    type_coerce,
    update,
)
from sqlalchemy import text as sql

from storage.conversations.outlines import MARKER_LAST, OUTLINE, ids_of, outlines
from storage.conversations.payload import join, load, split
from storage.conversations.rows import Kind, Origin, Row
from storage.conversations.rows import Message as ChatMessage
from storage.engine import Database, clock
from storage.models import (
    AGENT_ROW,
    LIVE,
    LIVE_CALLS,
    LIVE_MARKER,
    MESSAGE_ROW,
    OPENS_TURN,
    Message,
    Summary,
    table_of,
)
from storage.types import among, unescape

_M = Message
_KEY = bindparam("key", type_=BigInteger)
_START = bindparam("start", type_=BigInteger)
_BEFORE = bindparam("before", type_=BigInteger)
_LIMIT = bindparam("limit", type_=BigInteger)
# Built once, since every job runs them and building takes longer than the database.
_FORWARD = (
    select(*OUTLINE)
    .where(_M.session_key == _KEY, sql(LIVE), _M.position >= _START)
    .order_by(_M.position, MARKER_LAST)
    .limit(_LIMIT)
)
_BACKWARD = (
    select(*OUTLINE)
    .where(_M.session_key == _KEY, sql(LIVE))
    .order_by(_M.position.desc(), MARKER_LAST.desc())
    .limit(_LIMIT)
)
_AGENT_ROWS = (
    select(*OUTLINE)
    .where(_M.session_key == _KEY, sql(AGENT_ROW), _M.position >= _START, _M.position < _BEFORE)
    .order_by(_M.position)
    .limit(_LIMIT)
)
_NEWEST_REQUEST = (
    select(_M.position)
    .where(_M.session_key == _KEY, sql(OPENS_TURN), _M.active == 1)
    .order_by(_M.position.desc())
    .limit(1)
)
_REQUEST_BEFORE = _NEWEST_REQUEST.where(_M.position < _BEFORE)
# Into the table, not the mapped class, whose bulk inserts take longer than the database.
_INSERT = insert(table_of(_M))
_VISIBLE = or_(_M.active == 1, _M.compacted == 1)


@dataclass(frozen=True, slots=True)
class Draft:
    """A message to be stored, with its size and its classification."""

    message: ChatMessage
    tokens: int
    role: str
    origin: Origin | None
    opens_turn: bool
    calls: tuple[str, ...]
    answers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Amount:
    """A number of rows and of tokens."""

    messages: int
    tokens: int


def append(
    connection: Connection,
    key: int,
    drafts: Sequence[Draft],
    *,
    first_position: int,
    at: int | Sequence[int],
) -> None:
    """Store `drafts` at the positions from `first_position` on; `at` is the time of all, or of
    each."""
    rows = []
    times = repeat(at) if isinstance(at, int) else at
    for position, (draft, time) in enumerate(zip(drafts, times, strict=False), first_position):
        content, fields = split(draft.message)
        rows.append(
            {
                "session_key": key,
                "position": position,
                "role": draft.role,
                "origin": draft.origin,
                "opens_turn": int(draft.opens_turn),
                "tokens": draft.tokens,
                "call_ids": _ids(draft.calls),
                "answer_ids": _ids(draft.answers),
                "content": content,
                "fields": fields,
                "created_at": time,
            }
        )
    if rows:
        connection.execute(_INSERT, rows)


def insert_marker(
    connection: Connection,
    database: Database,
    key: int,
    *,
    kind: Kind,
    position: int,
    tokens: int,
    summary_id: int,
) -> None:
    """Put the marker of a summary into the live view, after the row at `position`."""
    connection.execute(
        _insert_marker(database.dialect, database.offset_ms),
        {
            "session_key": key,
            "position": position,
            "kind": kind,
            "tokens": tokens,
            "summary_id": summary_id,
        },
    )


@cache
def _insert_marker(dialect: str, offset_ms: int) -> Any:
    """Build the statement of `insert_marker` once: every pass runs it. It returns no id."""
    names = ("session_key", "position", "kind", "tokens", "summary_id")
    values: dict[str, Any] = {name: bindparam(name) for name in names}
    return _INSERT.values(**values, created_at=clock(dialect, offset_ms)).inline()


def read_view(connection: Connection, key: int) -> list[Row]:
    """Return the whole live view, in view order. Only this function shows the short form of pruned
    rows; every other one returns their originals."""
    query = _whole(key).where(sql("messages." + LIVE))
    return [_row(found, short=True) for found in connection.execute(query).mappings()]


def read_outline(connection: Connection, key: int) -> list[Row]:
    """Return outlines of the whole live view, in view order."""
    query = select(*OUTLINE).where(_M.session_key == key, sql(LIVE))
    return outlines(connection.execute(query.order_by(_M.position, MARKER_LAST)))


def read_between(connection: Connection, key: int, *, first: int, last: int) -> list[Row]:
    """Return the live messages from position `first` to `last`, in view order. Markers are left
    out."""
    return _read(
        connection,
        _whole(key).where(
            sql("messages." + LIVE), _M.position.between(first, last), _M.kind == Kind.MESSAGE
        ),
    )


def read_requests(connection: Connection, key: int, *, up_to: int, limit: int) -> list[Row]:
    """Return the newest `limit` requests at or before position `up_to` that are live or archived,
    newest first."""
    return _read(
        connection,
        _whole(key)
        .where(sql("messages." + OPENS_TURN), _VISIBLE, _M.position <= up_to)
        .order_by(None)
        .order_by(_M.position.desc())
        .limit(limit),
    )


def read_everything(connection: Connection, key: int) -> list[Row]:
    """Return every message that is live or archived, and the live markers, in view order."""
    archived = f"messages.{MESSAGE_ROW} AND messages.compacted = 1"
    return _read(connection, _whole(key).where(sql(f"({archived} OR messages.{LIVE})")))


def read_absorbed(connection: Connection, key: int, summary_id: int) -> list[Row]:
    """Return what a summary absorbed, markers included, in view order."""
    return _read(connection, _whole(key).where(_M.absorbed_by == summary_id))


def read_rows(connection: Connection, key: int, positions: Sequence[int]) -> list[Row]:
    """Return the live messages at `positions`, in view order. Markers are left out."""
    where = {"key": key, "positions": positions}
    found = connection.execute(_at(connection.dialect.name), where)
    return [_row(row) for row in found.mappings()]


def read_forward(connection: Connection, key: int, *, start: int, limit: int) -> list[Row]:
    """Return outlines of the first `limit` live rows at or after position `start`."""
    return outlines(connection.execute(_FORWARD, {"key": key, "start": start, "limit": limit}))


def read_backward(connection: Connection, key: int, *, limit: int) -> list[Row]:
    """Return outlines of the last `limit` live rows, in view order."""
    return outlines(connection.execute(_BACKWARD, {"key": key, "limit": limit}))[::-1]


def read_markers(connection: Connection, key: int) -> list[Row]:
    """Return the live markers with their summaries, in view order."""
    found = connection.execute(_MARKERS, {"key": key}).mappings()
    # Ordered here: SQLite would walk the whole live view to have them in order.
    return sorted(map(_row, found), key=lambda row: row.order)


def agent_rows(
    connection: Connection, key: int, *, start: int, before: int, limit: int
) -> list[Row]:
    """Return outlines of the first `limit` live rows from `start` on and before position `before`
    that neither a person nor the system wrote. The rows between them are not read."""
    where = {"key": key, "start": start, "before": before, "limit": limit}
    return outlines(connection.execute(_AGENT_ROWS, where))


def live_calls_before(connection: Connection, key: int, position: int) -> frozenset[str]:
    """Return ids of the tool calls that live rows before `position` make."""
    found = connection.execute(
        select(type_coerce(_M.call_ids, Text)).where(
            _M.session_key == key, sql(LIVE_CALLS), _M.position < position
        )
    ).scalars()
    return frozenset(call for ids in found for call in _tuple(ids))


def newest_request(connection: Connection, key: int, *, before: int | None = None) -> int | None:
    """Return the position of the newest live request, or of the newest before `before`."""
    if before is None:
        return connection.execute(_NEWEST_REQUEST, {"key": key}).scalar_one_or_none()
    found = connection.execute(_REQUEST_BEFORE, {"key": key, "before": before})
    return found.scalar_one_or_none()


def turn_starts(connection: Connection, key: int, *, newest: int) -> list[int]:
    """Return positions of the `newest` last requests, archived ones included, newest first."""
    return list(
        connection.execute(
            select(_M.position)
            .where(_M.session_key == key, sql(OPENS_TURN), _VISIBLE)
            .order_by(_M.position.desc())
            .limit(newest)
        ).scalars()
    )


def starts_turn(connection: Connection, key: int, position: int) -> bool:
    """Return whether a request that is live or archived stands at `position`."""
    found = connection.execute(
        select(_M.id).where(
            _M.session_key == key, _M.position == position, sql(OPENS_TURN), _VISIBLE
        )
    )
    return found.first() is not None


def archive(connection: Connection, ids: Sequence[int], *, summary_id: int) -> int:
    """Archive live rows that a summary absorbed; return how many were still live."""
    if not ids:
        return 0
    found = {"ids": ids, "absorber": summary_id}
    return connection.execute(_archive(connection.dialect.name), found).rowcount


def archive_between(
    connection: Connection,
    key: int,
    *,
    first: int,
    last: int,
    kept: Sequence[int],
    summary_id: int,
) -> int:
    """Archive the live messages from position `first` to `last` except those at `kept`, absorbed by
    a summary; return how many. Markers stay."""
    return connection.execute(
        update(table_of(_M))
        .where(
            _M.session_key == key,
            sql(LIVE),
            sql(MESSAGE_ROW),
            _M.position.between(first, last),
            _M.position.not_in(kept),
        )
        .values(active=0, compacted=1, absorbed_by=summary_id)
    ).rowcount


def restore(connection: Connection, summary_id: int) -> Amount:
    """Bring back into the view what a summary absorbed, including the markers it replaced."""
    found = connection.execute(
        update(_M)
        .where(_M.absorbed_by == summary_id)
        .values(active=1, compacted=0, absorbed_by=None)
        .returning(_M.tokens)
    ).scalars()
    tokens = list(found)
    return Amount(len(tokens), sum(tokens))


def withdraw_marker(connection: Connection, key: int, summary_id: int) -> Amount:
    """Take the live marker of a summary out of the view for good, as an undo does."""
    found = connection.execute(
        update(_M)
        .where(_M.session_key == key, sql(LIVE_MARKER), _M.summary_id == summary_id)
        .values(active=0, compacted=0)
        .returning(_M.tokens)
    ).scalars()
    tokens = list(found)
    return Amount(len(tokens), sum(tokens))


def change_marker(
    connection: Connection, key: int, *, shows: int, summary_id: int, tokens: int
) -> int:
    """Let the live marker of summary `shows` show `summary_id` instead; return the rows changed."""
    return connection.execute(
        update(_M)
        .where(_M.session_key == key, sql(LIVE_MARKER), _M.summary_id == shows)
        .values(summary_id=summary_id, tokens=tokens)
    ).rowcount


def rewind(connection: Connection, key: int, *, cut: int) -> tuple[Amount, int]:
    """Mark every row from position `cut` on as rewound.

    Returns what left the live view and how many rows were marked, archived ones included.
    """
    behind = (_M.session_key == key, _M.position >= cut)
    tokens = (
        connection.execute(
            update(_M).where(*behind, sql(LIVE)).values(active=0, compacted=0).returning(_M.tokens)
        )
        .scalars()
        .all()
    )
    archived = connection.execute(
        update(_M)
        .where(*behind, sql(MESSAGE_ROW), _M.compacted == 1)
        .values(active=0, compacted=0, absorbed_by=None)
    ).rowcount
    return Amount(len(tokens), sum(tokens)), len(tokens) + archived


def _whole(key: int | BindParameter[int]) -> Select[*tuple[Any, ...]]:
    return (
        select(
            *OUTLINE,
            _M.content,
            _M.fields,
            _M.pruned,
            Summary.text.label("summary"),
            Summary.verbatim,
        )
        .outerjoin(Summary, Summary.id == _M.summary_id)
        .where(_M.session_key == key)
        .order_by(_M.position, MARKER_LAST)
    )


_MARKERS = _whole(_KEY).where(sql("messages." + LIVE_MARKER)).order_by(None)


@cache
def _at(dialect: str) -> Any:
    return _whole(_KEY).where(
        sql("messages." + LIVE),
        among(table_of(_M).c.position, "positions", dialect),
        _M.kind == Kind.MESSAGE,
    )


@cache
def _archive(dialect: str) -> Any:
    rows = table_of(_M)
    return (
        update(rows)
        .where(among(rows.c.id, "ids", dialect), rows.c.active == 1)
        .values(active=0, compacted=1, absorbed_by=bindparam("absorber", type_=BigInteger))
    )


def _read(connection: Connection, query: Select[*tuple[Any, ...]]) -> list[Row]:
    return [_row(found) for found in connection.execute(query).mappings()]


def _row(found: RowMapping, *, short: bool = False) -> Row:
    kind, pruned = Kind(found["kind"]), found["pruned"]
    role = None if found["role"] is None else unescape(found["role"])
    return Row(
        id=found["id"],
        position=found["position"],
        kind=kind,
        role=role,
        origin=None if found["origin"] is None else Origin(found["origin"]),
        opens_turn=bool(found["opens_turn"]),
        tokens=found["tokens"],
        calls=_tuple(found["call_ids"]),
        answers=_tuple(found["answer_ids"]),
        message=None if kind.is_marker else _message(found, role, pruned if short else None),
        summary=found.get("summary"),
        verbatim=found.get("verbatim") or "",
        summary_id=found["summary_id"],
        pruned=pruned is not None,
    )


def _message(found: RowMapping, role: str | None, pruned: str | None) -> ChatMessage:
    if pruned is not None:
        return load(pruned)
    return join(role, found["content"], found["fields"])


def _ids(values: tuple[str, ...]) -> str | None:
    return json.dumps(values, ensure_ascii=False) if values else None


def _tuple(text: str | None) -> tuple[str, ...]:
    return () if text is None else ids_of(text)
