"""Scroll through a session, and browse sessions."""

from __future__ import annotations

from sqlalchemy import ColumnElement, Connection, func, or_, select, tuple_
from sqlalchemy import text as sql

from storage.engine import Database
from storage.models import OPENS_TURN, Message, Session
from storage.search.results import Browsed, BrowsePage, Scrolled, SessionFacts
from storage.search.scope import Scope
from storage.search.surroundings import FACTS, facts_of, lines_around
from storage.search.texts import searchable

_S, _M = Session, Message
_VISIBLE = or_(_M.active == 1, _M.compacted == 1)


def scroll(
    database: Database, *, owner: str, session_id: str, message_id: int, window: int
) -> Scrolled | None:
    """Up to `window` messages on either side of one that can be found, archived ones included.

    None when the owner has no such message: rewound ones and those of others are none.
    """
    with database.read() as connection:
        row = connection.execute(
            select(_M.session_key, _M.position)
            .join(_S, _S.key == _M.session_key)
            .where(
                _M.id == message_id,
                _M.kind == "message",
                _VISIBLE,
                _S.owner == owner,
                _S.id == session_id,
            )
        ).first()
        if row is None:
            return None
        key, position = row
        # One more at either end tells whether there are more.
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
    """Sessions in the scope that hold a message, the last active ones first.

    Of the scope owner, source and times count; a session is in it when it was active then.
    """
    conditions: list[ColumnElement[bool]] = [_S.next_position > 0]
    if scope.owner is not None:
        conditions.append(_S.owner == scope.owner)
    if scope.source is not None:
        conditions.append(_S.source == scope.source)
    if scope.session is not None:
        conditions.append(_S.key == scope.session)
    if scope.since is not None:
        conditions.append(_S.active_at >= scope.since)
    if scope.until is not None:
        conditions.append(_S.started_at < scope.until)
    if after is not None:
        conditions.append(tuple_(_S.active_at, _S.key) < after)
    with database.read() as connection:
        rows = connection.execute(
            select(*FACTS)
            .where(*conditions)
            .order_by(_S.active_at.desc(), _S.key.desc())
            .limit(limit + 1)
        ).all()
        page = [SessionFacts(*row) for row in rows[:limit]]
        following = (page[-1].active_at, page[-1].key) if len(rows) > limit else None
        return BrowsePage(tuple(_browsed(connection, facts) for facts in page), following)


def _browsed(connection: Connection, facts: SessionFacts) -> Browsed:
    own = _M.session_key == facts.key
    messages = connection.execute(
        select(func.count()).where(own, _M.kind == "message", _VISIBLE)
    ).scalar_one()
    first = connection.execute(
        select(_M.role, _M.content, _M.fields)
        .where(own, sql(f"messages.{OPENS_TURN}"), _VISIBLE)
        .order_by(_M.position)
        .limit(1)
    ).first()
    return Browsed(facts, messages, None if first is None else searchable(*first))
