"""What stands around a hit: window, the session's ends, the summary that covers it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Select, bindparam, or_, select
from sqlalchemy import text as sql

from storage.models import Message, Session, Summary
from storage.search.documents import part_of, place_of
from storage.search.excerpts import excerpt
from storage.search.matching import Match
from storage.search.results import Covering, Hit, Line, SessionFacts
from storage.search.scope import SUMMARY, Scope
from storage.search.texts import parts, searchable

WINDOW = 5
BOOKENDS = 3
"""Messages around a hit on either side, and at either end of its session (ENGINE.md §11)."""

_M, _S, _Y = Message, Session, Summary
_VISIBLE = (_M.kind == "message") & or_(_M.active == 1, _M.compacted == 1)
_LINE = (_M.id, _M.position, _M.role, _M.created_at, _M.content, _M.fields, _M.compacted)
_FACTS = (_S.key, _S.owner, _S.id, _S.title, _S.source, _S.started_at, _S.active_at)


def hits_of(
    connection: Connection, found: Sequence[tuple[int, Match]], scope: Scope
) -> list[Hit]:
    """The hits for documents that match, in the same order, with all that stands around them.

    The owner is looked at once more: what the index names is never shown on its word alone.
    """
    return [
        hit
        for number, matched in found
        if (hit := _hit(connection, number, matched, scope)) is not None
    ]


def facts_of(connection: Connection, key: int) -> SessionFacts:
    """What is told of a session with a hit."""
    return SessionFacts(*connection.execute(select(*_FACTS).where(_S.key == key)).one())


def lines_before(connection: Connection, key: int, position: int, limit: int) -> list[Line]:
    """The last `limit` messages before `position` that can be found, in order."""
    query = _lines(key).where(_M.position < position).order_by(_M.position.desc())
    return _read(connection, query.limit(limit))[::-1]


def lines_from(connection: Connection, key: int, position: int, limit: int) -> list[Line]:
    """The first `limit` messages from `position` on that can be found, in order."""
    query = _lines(key).where(_M.position >= position).order_by(_M.position)
    return _read(connection, query.limit(limit))


def lines_at_end(connection: Connection, key: int, limit: int) -> list[Line]:
    """The last `limit` messages that can be found, in order."""
    return _read(connection, _lines(key).order_by(_M.position.desc()).limit(limit))[::-1]


def _hit(connection: Connection, number: int, matched: Match, scope: Scope) -> Hit | None:
    place = place_of(number)
    row = connection.execute(
        _SUMMARY_ROW if place.is_summary else _MESSAGE_ROW, {"id": place.id}
    ).first()
    if row is None:
        return None
    key, position, role, at, content, fields, archived = row
    session = facts_of(connection, key)
    if scope.owner is not None and session.owner != scope.owner:
        return None
    whole = searchable(role, content, fields)
    start, end = parts(whole)[part_of(number)]
    return Hit(
        session=session,
        message_id=None if place.is_summary else place.id,
        summary_id=place.id if place.is_summary else None,
        position=position,
        role=SUMMARY if place.is_summary else role,
        at=at,
        archived=bool(archived),
        whole=matched.whole,
        score=round(matched.score, 4),
        excerpt=excerpt(whole[start:end], matched.spans),
        covered_by=_covering(connection, key, position) if archived else None,
        window=(
            *lines_before(connection, key, position, WINDOW),
            *lines_from(connection, key, position, WINDOW + 1),
        ),
        opening=tuple(lines_from(connection, key, 0, BOOKENDS)),
        ending=tuple(lines_at_end(connection, key, BOOKENDS)),
    )


_MESSAGE_ROW = select(
    _M.session_key, _M.position, _M.role, _M.created_at, _M.content, _M.fields, _M.compacted
).where(_M.id == bindparam("id"), _VISIBLE)
_SUMMARY_ROW = select(
    _Y.session_key,
    _Y.last_position,
    sql("NULL"),
    _Y.created_at,
    _Y.text,
    sql("NULL"),
    sql("0"),
).where(_Y.id == bindparam("id"), sql("summaries.status = 'live'"))


def _covering(connection: Connection, key: int, position: int) -> Covering | None:
    """The summary shown now that stands for what is at `position`; the newest where several do."""
    row = connection.execute(
        select(_Y.id, _Y.kind, _Y.first_position, _Y.last_position, _Y.text)
        .where(
            _Y.session_key == key,
            sql("summaries.status = 'live'"),
            _Y.first_position <= position,
            _Y.last_position >= position,
        )
        .order_by(_Y.id.desc())
        .limit(1)
    ).first()
    return None if row is None else Covering(*row)


def _lines(key: int) -> Select[*tuple[Any, ...]]:
    return select(*_LINE).where(_M.session_key == key, _VISIBLE)


def _read(connection: Connection, query: Select[*tuple[Any, ...]]) -> list[Line]:
    return [
        Line(id_, position, role or "", at, searchable(role, content, fields), bool(compacted))
        for id_, position, role, at, content, fields, compacted in connection.execute(query)
    ]
