"""What sums over a session's live rows alone say of what a pass could absorb.

A turn mostly makes nothing due, and to know that by these takes no row of the conversation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Connection, bindparam, case, func, literal, select
from sqlalchemy import text as sql

from storage.cursors import CursorName
from storage.lists import among
from storage.models import AGENT_ROW, LIVE, LIVE_MARKER, Cursor, Message, Session, table_of
from storage.rows import Kind


@dataclass(frozen=True, slots=True)
class Prospect:
    """Tokens of live rows from the cursor `micro` on.

    `agent` are those of rows that neither a person nor the system wrote, `ahead` those of all.
    Where an agent's rows reach the number that was asked for, with a row that is called R here:
    `behind` are those of all rows behind R, `later` those from the next request behind R on, and
    `largest` those of the largest row from R on; else they are 0. `marker` are those of the live
    micro marker, wherever it stands.
    """

    agent: int = 0
    ahead: int = 0
    behind: int = 0
    later: int = 0
    largest: int = 0
    marker: int = 0


def read_prospects(
    connection: Connection, keys: Sequence[int], *, enough: int
) -> dict[int, Prospect]:
    """The prospects of sessions, by key, for `enough` tokens of an agent's rows."""
    if not keys:
        return {}
    given = {"keys": keys, "enough": enough}
    rows = connection.execute(_prospects(connection.dialect.name), given)
    found = {key: Prospect(*map(int, sums)) for key, *sums in rows}
    return {key: found.get(key, Prospect()) for key in keys}


@cache
def _prospects(dialect: str) -> Any:
    """The statement of `read_prospects`, built once: building takes longer than the database."""
    sessions, messages, cursors = table_of(Session), table_of(Message), table_of(Cursor)
    row, nothing = messages.c, literal(0, BigInteger)
    agents = case((sql(f"({AGENT_ROW})"), row.tokens), else_=nothing)
    at = (cursors.c.session_key == sessions.c.key) & (cursors.c.name == CursorName.MICRO)
    # From the cursor on: what people said stays live before it for as long as a session lasts.
    is_ahead = (
        (row.session_key == sessions.c.key)
        & sql(LIVE)
        & (row.position >= func.coalesce(cursors.c.position, nothing))
    )
    live = (
        select(
            sessions.c.key,
            row.position,
            row.opens_turn,
            agents.label("agent"),
            func.coalesce(row.tokens, nothing).label("ahead"),
            _so_far(agents, sessions.c.key, row.position).label("reached"),
        )
        .select_from(sessions.outerjoin(cursors, at).outerjoin(messages, is_ahead))
        .where(among(sessions.c.key, "keys", dialect))
        .subquery("live")
    )
    seen = live.c
    enough = bindparam("enough", type_=BigInteger)
    is_behind = seen.reached - seen.agent >= enough
    requests = case((is_behind & (seen.opens_turn == 1), 1), else_=0)
    placed = select(
        seen.key,
        seen.agent,
        seen.ahead,
        case((is_behind, seen.ahead), else_=nothing).label("behind"),
        case((seen.reached >= enough, seen.ahead), else_=nothing).label("from_there"),
        _so_far(requests, seen.key, seen.position).label("requests"),
    ).subquery("placed")
    sums = placed.c
    marker = table_of(Message).alias("marker").c
    newest = (
        select(func.max(marker.tokens))
        .where(
            marker.session_key == sums.key, sql(f"marker.{LIVE_MARKER}"), marker.kind == Kind.MICRO
        )
        .scalar_subquery()
    )
    return select(
        sums.key,
        func.sum(sums.agent),
        func.sum(sums.ahead),
        func.sum(sums.behind),
        func.sum(case((sums.requests > 0, sums.ahead), else_=nothing)),
        func.max(sums.from_there),
        func.coalesce(newest, nothing),
    ).group_by(sums.key)


def _so_far(
    what: ColumnElement[int], session: ColumnElement[int], position: ColumnElement[int]
) -> ColumnElement[int]:
    """The sum of `what` over a session's rows up to each of them."""
    return func.sum(what).over(partition_by=session, order_by=position, rows=(None, 0))
