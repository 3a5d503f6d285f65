"""Surroundings of a hit: its window, the session's ends, the summary that covers it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    bindparam,
    func,
    or_,
    select,
    tuple_,
    union_all,
)
from sqlalchemy import text as sql

from storage.engine import Database
from storage.models import OPENS_TURN, Message, Session, Summary
from storage.search.documents import Place, part_of, parts, place_of, searchable
from storage.search.matching import Match, excerpt
from storage.search.results import Browsed, BrowsePage, Covering, Hit, Line, Scrolled, SessionFacts
from storage.search.scope import SUMMARY, Scope

WINDOW = 5
BOOKENDS = 3
"""Messages around a hit on either side, and at either end of its session."""

_M, _S, _Y = Message, Session, Summary
_VISIBLE = sql("messages.kind = 'message' AND (messages.active = 1 OR messages.compacted = 1)")
_LINE = (_M.id, _M.position, _M.role, _M.created_at, _M.content, _M.fields, _M.compacted)
FACTS = (_S.key, _S.owner, _S.id, _S.title, _S.source, _S.started_at, _S.active_at)


@dataclass(frozen=True, slots=True)
class _Row:
    session: SessionFacts
    position: int
    role: str | None
    at: int
    content: str | None
    fields: str | None
    archived: bool


def hits_of(connection: Connection, found: Sequence[tuple[int, Match]], scope: Scope) -> list[Hit]:
    """Return the hits for documents that match, in the same order, with their surroundings.

    The owner is checked once more: a row that the index names is never shown on that basis alone.
    """
    rows = _rows(connection, {place_of(number) for number, _ in found})
    if scope.owner is not None:
        rows = {place: row for place, row in rows.items() if row.session.owner == scope.owner}
    covering = _coverings(connection, {row.session.key for row in rows.values() if row.archived})
    ends = {key: _ends(connection, key) for key in {row.session.key for row in rows.values()}}
    hits = []
    for number, matched in found:
        place = place_of(number)
        row = rows.get(place)
        if row is None:
            continue
        key = row.session.key
        whole = searchable(row.role, row.content, row.fields)
        start, end = parts(whole)[part_of(number)]
        opening, ending = ends[key]
        hits.append(
            Hit(
                session=row.session,
                message_id=None if place.is_summary else place.id,
                summary_id=place.id if place.is_summary else None,
                position=row.position,
                role=SUMMARY if place.is_summary else row.role or "",
                at=row.at,
                archived=row.archived,
                whole=matched.whole,
                score=round(matched.score, 4),
                excerpt=excerpt(whole[start:end], matched.spans),
                covered_by=_cover(covering.get(key, ()), row) if row.archived else None,
                window=lines_around(connection, key, row.position, WINDOW, WINDOW),
                opening=opening,
                ending=ending,
            )
        )
    return hits


def facts_of(connection: Connection, key: int) -> SessionFacts:
    """Return the facts about a session with a hit."""
    return SessionFacts(*connection.execute(select(*FACTS).where(_S.key == key)).one())


def lines_around(
    connection: Connection, key: int, position: int, before: int, behind: int
) -> tuple[Line, ...]:
    """Return the message at `position` with up to so many before and after it, in order: of those
    that can be found."""
    values = {"key": key, "place": position, "before": before, "behind": behind + 1}
    return _in_order(connection.execute(_AROUND, values).all())


def _ends(connection: Connection, key: int) -> tuple[tuple[Line, ...], tuple[Line, ...]]:
    values = {"key": key, "place": 0, "before": BOOKENDS, "behind": BOOKENDS}
    lines = _in_order(connection.execute(_ENDS, values).all())
    return lines[:BOOKENDS], lines[-BOOKENDS:]


def _rows(connection: Connection, places: set[Place]) -> dict[Place, _Row]:
    found: dict[Place, _Row] = {}
    for is_summary, statement in ((False, _MESSAGE_ROWS), (True, _SUMMARY_ROWS)):
        ids = sorted(place.id for place in places if place.is_summary is is_summary)
        if not ids:
            continue
        for row in connection.execute(statement, {"ids": ids}):
            id_, position, role, at, content, fields, archived, *facts = row
            found[Place(id_, is_summary)] = _Row(
                SessionFacts(*facts), position, role, at, content, fields, archived == 1
            )
    return found


def _coverings(connection: Connection, keys: set[int]) -> Mapping[int, Sequence[Covering]]:
    """Return the summaries shown now in the sessions, the newest first."""
    found: dict[int, list[Covering]] = {}
    if keys:
        for key, id_, kind, first, last, text in connection.execute(
            _COVERINGS, {"keys": sorted(keys)}
        ):
            found.setdefault(key, []).append(Covering(id_, kind, first, last, text))
    return found


def _cover(coverings: Sequence[Covering], row: _Row) -> Covering | None:
    return next(
        (one for one in coverings if one.first_position <= row.position <= one.last_position), None
    )


def _in_order(rows: Sequence[Row[*tuple[Any, ...]]]) -> tuple[Line, ...]:
    # The ends of a short session overlap.
    return tuple(
        Line(id_, position, role or "", at, searchable(role, content, fields), compacted == 1)
        for id_, position, role, at, content, fields, compacted in sorted(
            {row.id: row for row in rows}.values(), key=lambda row: row.position
        )
    )


_OWN = _M.session_key == bindparam("key")
_BEFORE = (
    select(*_LINE)
    .where(_OWN, _VISIBLE, _M.position < bindparam("place"))
    .order_by(_M.position.desc())
    .limit(bindparam("before"))
    .subquery()
)
_BEHIND = (
    select(*_LINE)
    .where(_OWN, _VISIBLE, _M.position >= bindparam("place"))
    .order_by(_M.position)
    .limit(bindparam("behind"))
    .subquery()
)
_LAST = (
    select(*_LINE)
    .where(_OWN, _VISIBLE)
    .order_by(_M.position.desc())
    .limit(bindparam("before"))
    .subquery()
)
_AROUND = union_all(select(_BEFORE), select(_BEHIND))
_ENDS = union_all(select(_BEHIND), select(_LAST))
_MESSAGE_ROWS = (
    select(
        *(_M.id, _M.position, _M.role, _M.created_at, _M.content, _M.fields, _M.compacted), *FACTS
    )
    .join(_S, _S.key == _M.session_key)
    .where(_M.id.in_(bindparam("ids", expanding=True)), _VISIBLE)
)
_SUMMARY_ROWS = (
    select(
        *(_Y.id, _Y.last_position, sql("NULL"), _Y.created_at, _Y.text, sql("NULL"), sql("0")),
        *FACTS,
    )
    .join(_S, _S.key == _Y.session_key)
    .where(_Y.id.in_(bindparam("ids", expanding=True)), sql("summaries.status = 'live'"))
)
_COVERINGS = (
    select(_Y.session_key, _Y.id, _Y.kind, _Y.first_position, _Y.last_position, _Y.text)
    .where(_Y.session_key.in_(bindparam("keys", expanding=True)), sql("summaries.status = 'live'"))
    .order_by(_Y.id.desc())
)


_S_READING, _M_READING = Session, Message
_VISIBLE_READING = or_(_M_READING.active == 1, _M_READING.compacted == 1)


def scroll(
    database: Database, *, owner: str, session_id: str, message_id: int, window: int
) -> Scrolled | None:
    """Return up to `window` messages on either side of one that can be found, archived ones too.

    None when the owner has no such message: rewound ones and those of others are none.
    """
    with database.read() as connection:
        row = connection.execute(
            select(_M_READING.session_key, _M_READING.position)
            .join(_S_READING, _S_READING.key == _M_READING.session_key)
            .where(
                _M_READING.id == message_id,
                _M_READING.kind == "message",
                _VISIBLE_READING,
                _S_READING.owner == owner,
                _S_READING.id == session_id,
            )
        ).first()
        if row is None:
            return None
        key, position = row
        # One more at either end shows whether there are more.
        lines = lines_around(connection, key, position, window + 1, window + 1)
        place = next(at for at, line in enumerate(lines) if line.position == position)
        shown = lines[max(0, place - window) : place + window + 1]
        return Scrolled(
            session=facts_of(connection, key),
            around=position,
            lines=shown,
            before=shown[0].message_id if place > window else None,
            behind=shown[-1].message_id if len(lines) - place - 1 > window else None,
        )


def browse(
    database: Database, scope: Scope, *, limit: int, after: tuple[int, int] | None = None
) -> BrowsePage:
    """Return sessions in the scope that hold a message, the last active ones first.

    Of the scope owner, source and times count; a session is in it when it was active then.
    """
    conditions: list[ColumnElement[bool]] = [_S_READING.next_position > 0]
    if scope.owner is not None:
        conditions.append(_S_READING.owner == scope.owner)
    if scope.source is not None:
        conditions.append(_S_READING.source == scope.source)
    if scope.session is not None:
        conditions.append(_S_READING.key == scope.session)
    if scope.since is not None:
        conditions.append(_S_READING.active_at >= scope.since)
    if scope.until is not None:
        conditions.append(_S_READING.started_at < scope.until)
    if after is not None:
        conditions.append(tuple_(_S_READING.active_at, _S_READING.key) < after)
    with database.read() as connection:
        rows = connection.execute(
            select(*FACTS)
            .where(*conditions)
            .order_by(_S_READING.active_at.desc(), _S_READING.key.desc())
            .limit(limit + 1)
        ).all()
        page = [SessionFacts(*row) for row in rows[:limit]]
        following = (page[-1].active_at, page[-1].key) if len(rows) > limit else None
        return BrowsePage(tuple(_browsed(connection, facts) for facts in page), following)


def _browsed(connection: Connection, facts: SessionFacts) -> Browsed:
    own = _M_READING.session_key == facts.key
    messages = connection.execute(
        select(func.count()).where(own, _M_READING.kind == "message", _VISIBLE_READING)
    ).scalar_one()
    first = connection.execute(
        select(_M_READING.role, _M_READING.content, _M_READING.fields)
        .where(own, sql(f"messages.{OPENS_TURN}"), _VISIBLE_READING)
        .order_by(_M_READING.position)
        .limit(1)
    ).first()
    return Browsed(facts, messages, None if first is None else searchable(*first))
