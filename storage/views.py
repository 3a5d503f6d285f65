"""A live view as a decision about it looks at it: its ends at once, the rest where it is asked for.

Most sessions have a short view, which the read of its end holds whole. What is asked of such a one
is answered from there; the answers are the same as of the database.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

from sqlalchemy import BigInteger, Connection, Text, bindparam, literal_column, select, type_coerce
from sqlalchemy import text as sql

from storage import messages
from storage.escape import unescape
from storage.models import LIVE, LIVE_MARKER, Message, Summary
from storage.outlines import MARKER_LAST, OUTLINE, outlines
from storage.rows import Row

_M = Message
_MARKER, _FIRST, _LAST = range(3)
_COLUMNS = len(OUTLINE)
_POSITION = attrgetter("position")

_KEY = bindparam("key", type_=BigInteger)
_NOTHING = literal_column("NULL", Text)
_LIVE = select(*OUTLINE, MARKER_LAST.label("marker_last")).where(_M.session_key == _KEY, sql(LIVE))
_BEGINNING = (
    _LIVE.order_by(_M.position, MARKER_LAST)
    .limit(bindparam("first", type_=BigInteger))
    .subquery("beginning")
)
_END = (
    _LIVE.order_by(_M.position.desc(), MARKER_LAST.desc())
    .limit(bindparam("last", type_=BigInteger))
    .subquery("ending")
)
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
_PARTS = _MARKERS.union_all(
    select(_BEGINNING, _NOTHING, _NOTHING, literal_column(str(_FIRST))),
    select(_END, _NOTHING, _NOTHING, literal_column(str(_LAST))),
).order_by("part", "position", "marker_last")


@dataclass(frozen=True, slots=True)
class View:
    """The live view of a session, read in one snapshot with `connection`.

    `markers` are its markers with their summaries. All other rows are outlines, and all are in
    view order. `first` and `last` are a beginning and an end of the view, of `asked_first` and
    `asked_last` rows where it has so many.
    """

    connection: Connection
    key: int
    markers: Sequence[Row]
    first: Sequence[Row]
    last: Sequence[Row]
    asked_first: int
    asked_last: int

    @property
    def is_whole(self) -> bool:
        """Whether `last` is the whole view."""
        return len(self.last) < self.asked_last

    def forward(self, *, start: int, limit: int) -> Sequence[Row]:
        """The first `limit` rows at or behind position `start`."""
        if self.is_whole:
            begin = bisect_left(self.last, start, key=_POSITION)
            return self.last[begin : begin + limit]
        if start == 0 and limit <= self.asked_first:
            return self.first[:limit]
        return messages.read_forward(self.connection, self.key, start=start, limit=limit)

    def backward(self, *, limit: int) -> Sequence[Row]:
        """The last `limit` rows."""
        if self.is_whole or limit <= self.asked_last:
            return self.last[max(0, len(self.last) - limit) :]
        return messages.read_backward(self.connection, self.key, limit=limit)

    def agent_rows(self, *, start: int, before: int, limit: int) -> Sequence[Row]:
        """The first `limit` rows from position `start` on and before `before` that neither a
        person nor the system wrote."""
        if not self.is_whole:
            return messages.agent_rows(
                self.connection, self.key, start=start, before=before, limit=limit
            )
        begin = bisect_left(self.last, start, key=_POSITION)
        end = bisect_left(self.last, before, key=_POSITION)
        return [row for row in self.last[begin:end] if row.is_of_agent][:limit]

    def newest_request(self, *, before: int | None = None) -> int | None:
        """Position of the newest request, or of the newest before position `before`."""
        if not self.is_whole:
            return messages.newest_request(self.connection, self.key, before=before)
        end = len(self.last)
        if before is not None:
            end = bisect_left(self.last, before, key=_POSITION)
        return next((row.position for row in reversed(self.last[:end]) if row.opens_turn), None)

    def calls_before(self, position: int) -> frozenset[str]:
        """Ids of the tool calls that rows before `position` make."""
        if not self.is_whole:
            return messages.live_calls_before(self.connection, self.key, position)
        end = bisect_left(self.last, position, key=_POSITION)
        return frozenset(call for row in self.last[:end] for call in row.calls)


def read(connection: Connection, key: int, *, first: int, last: int) -> View:
    """Read the markers, the `first` rows of the live view and its `last` ones, in one statement."""
    found = connection.execute(_PARTS, {"key": key, "first": first, "last": last}).all()
    parts: dict[Any, list[Any]] = {_MARKER: [], _FIRST: [], _LAST: []}
    for row in found:
        parts[row[-1]].append(row)
    markers = outlines(row[:_COLUMNS] for row in parts[_MARKER])
    return View(
        connection,
        key,
        markers=[
            replace(
                marker,
                summary=None if row.summary is None else unescape(row.summary),
                verbatim=unescape(row.verbatim or ""),
            )
            for marker, row in zip(markers, parts[_MARKER], strict=True)
        ],
        first=outlines(row[:_COLUMNS] for row in parts[_FIRST]),
        last=outlines(row[:_COLUMNS] for row in parts[_LAST]),
        asked_first=first,
        asked_last=last,
    )
