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
from storage.models import AGENT_ROW, LIVE, Cursor, Message, table_of
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
    given = {"keys": keys, "enough": enough}
    rows = connection.execute(_prospects(connection.dialect.name), given)
    found = {key: Prospect(*map(int, sums)) for key, *sums in rows}
    return {key: found.get(key, Prospect()) for key in keys}


@cache
def _prospects(dialect: str) -> Any:
    """The statement of `read_prospects`, built once: every turn job runs it."""
    messages, cursors = table_of(Message), table_of(Cursor)
    row, nothing = messages.c, literal(0, BigInteger)
    is_ahead = row.position >= func.coalesce(cursors.c.position, nothing)
    agents = case((is_ahead & sql(f"({AGENT_ROW})"), row.tokens), else_=nothing)
    live = (
        select(
            row.session_key,
            row.position,
            row.opens_turn,
            agents.label("agent"),
            case((is_ahead, row.tokens), else_=nothing).label("ahead"),
            _so_far(agents, row.session_key, row.position).label("reached"),
            case((row.kind == Kind.MICRO, row.tokens), else_=nothing).label("marker"),
        )
        .outerjoin_from(
            messages,
            cursors,
            (cursors.c.session_key == row.session_key) & (cursors.c.name == CursorName.MICRO),
        )
        .where(among(row.session_key, "keys", dialect), sql(LIVE))
        .subquery("live")
    )
    seen = live.c
    enough = bindparam("enough", type_=BigInteger)
    is_behind = seen.reached - seen.agent >= enough
    requests = case((is_behind & (seen.opens_turn == 1), 1), else_=0)
    placed = select(
        seen.session_key,
        seen.agent,
        seen.ahead,
        seen.marker,
        case((is_behind, seen.ahead), else_=nothing).label("behind"),
        case((seen.reached >= enough, seen.ahead), else_=nothing).label("from_there"),
        _so_far(requests, seen.session_key, seen.position).label("requests"),
    ).subquery("placed")
    sums = placed.c
    return select(
        sums.session_key,
        func.sum(sums.agent),
        func.sum(sums.ahead),
        func.sum(sums.behind),
        func.sum(case((sums.requests > 0, sums.ahead), else_=nothing)),
        func.max(sums.from_there),
        func.max(sums.marker),
    ).group_by(sums.session_key)


def _so_far(
    what: ColumnElement[int], session: ColumnElement[int], position: ColumnElement[int]
) -> ColumnElement[int]:
    """The sum of `what` over a session's rows up to each of them."""
    return func.sum(what).over(partition_by=session, order_by=position, rows=(None, 0))
