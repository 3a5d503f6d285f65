"""What sums over a session's live rows alone say of what a pass could absorb.

A turn mostly makes nothing due, and to know that by these takes no row of the conversation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import BigInteger, Connection, bindparam, case, func, literal, select
from sqlalchemy import text as sql

from storage.cursors import CursorName
from storage.lists import among
from storage.models import AGENT_ROW, LIVE, Cursor, Message, table_of
from storage.rows import Kind


@dataclass(frozen=True, slots=True)
class Prospect:
    """Tokens of live rows from the cursor `micro` on.

    `agent` are those of rows that neither a person nor the system wrote. Where the first of these
    reach the number that was asked for, `behind` are those of all rows behind the one with which
    they do, and `largest` those of the largest row from that one on; else 0. `marker` are those of
    the live micro marker, wherever it stands.
    """

    agent: int = 0
    behind: int = 0
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
    enough = bindparam("enough", type_=BigInteger)
    reached = func.sum(agents).over(
        partition_by=row.session_key, order_by=row.position, rows=(None, 0)
    )
    is_from_there = is_ahead & (reached >= enough)
    is_behind = is_ahead & (reached - agents >= enough)
    live = (
        select(
            row.session_key,
            agents.label("agent"),
            case((is_behind, row.tokens), else_=nothing).label("behind"),
            case((is_from_there, row.tokens), else_=nothing).label("from_there"),
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
    return select(
        live.c.session_key,
        func.sum(live.c.agent),
        func.sum(live.c.behind),
        func.max(live.c.from_there),
        func.max(live.c.marker),
    ).group_by(live.c.session_key)
