"""Short forms of old tool output, kept beside the originals; see docs/explanation/pruning.md.

A row with a short form is shown by it; `tokens` is then the size of the short form. The caller of
every function that writes holds the session's row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import BigInteger, Connection, bindparam, func, or_, select, update
from sqlalchemy import text as sql

from storage.conversations.messages import Amount
from storage.conversations.payload import dump, join
from storage.conversations.rows import Message as ChatMessage
from storage.models import LIVE, MESSAGE_ROW, PRUNED, Message, Session, table_of
from storage.types import EscapedText

_MESSAGES = table_of(Message)
_M = _MESSAGES.c
_SESSIONS = table_of(Session)


@dataclass(frozen=True, slots=True)
class ShortForm:
    """The short form of a row. `tokens` is its size, `spared` what it saves; `same_as` is the
    position of the later output that it points at, if it does."""

    position: int
    message: ChatMessage
    tokens: int
    spared: int
    same_as: int | None = None


@dataclass(frozen=True, slots=True)
class Original:
    """A message as it was stored, and its session. `pruned` says that the view shows it short."""

    session_id: str
    position: int
    message: ChatMessage
    pruned: bool


def shorten(connection: Connection, key: int, forms: Sequence[ShortForm]) -> int:
    """Show live messages by their short forms; return how many had none before."""
    if not forms:
        return 0
    return connection.execute(
        _shorten(),
        [
            {
                "session": key,
                "at": form.position,
                "short": dump(form.message),
                "estimated": form.tokens,
                "spared": form.spared,
                "later": form.same_as,
            }
            for form in forms
        ],
    ).rowcount


def restore(connection: Connection, key: int) -> Amount:
    """Show every row of a session in full again; return how many live ones that were, and the
    tokens that this adds to the view."""
    return _restore(connection, _M.session_key == key)


def restore_for_rewind(connection: Connection, key: int, *, cut: int) -> Amount:
    """Show in full again what is at or after position `cut`, and what points there; return amounts
    as `restore` does."""
    return _restore(connection, _M.session_key == key, or_(_M.position >= cut, _M.same_as >= cut))


def count(connection: Connection, key: int) -> Amount:
    """Return how many live rows are shown short, and the tokens that this saves."""
    rows, spared = connection.execute(
        select(func.count(), func.coalesce(func.sum(_M.spared_tokens), 0)).where(
            _M.session_key == key, sql(PRUNED), sql(LIVE)
        )
    ).one()
    return Amount(rows, int(spared))


def find_original(
    connection: Connection, *, owner: str, key: int, position: int
) -> Original | None:
    """Return the owner's message at a position of the session of that key, live or archived; None
    where there is none, or it was rewound."""
    found = connection.execute(
        select(_SESSIONS.c.id, _M.role, _M.content, _M.fields, _M.pruned)
        .join(_SESSIONS, _SESSIONS.c.key == _M.session_key)
        .where(
            _M.session_key == key,
            _M.position == position,
            sql(f"messages.{MESSAGE_ROW}"),
            sql("(messages.active = 1 OR messages.compacted = 1)"),
            _SESSIONS.c.owner == owner,
        )
    ).first()
    if found is None:
        return None
    session_id, role, content, fields, pruned = found
    return Original(session_id, position, join(role, content, fields), pruned is not None)


@cache
def _shorten() -> Any:
    """Build the statement of `shorten` once: it runs for every row of a pass."""
    return (
        update(_MESSAGES)
        .where(
            _M.session_key == bindparam("session"),
            _M.position == bindparam("at"),
            sql(MESSAGE_ROW),
            sql(LIVE),
            _M.pruned.is_(None),
        )
        .values(
            pruned=bindparam("short", type_=EscapedText()),
            tokens=bindparam("estimated", type_=BigInteger),
            spared_tokens=bindparam("spared", type_=BigInteger),
            same_as=bindparam("later", type_=BigInteger),
        )
    )


def _restore(connection: Connection, *which: Any) -> Amount:
    # The row keeps what was spared: RETURNING yields values as they are afterwards.
    found = connection.execute(
        update(_MESSAGES)
        .where(*which, sql(PRUNED))
        .values(pruned=None, same_as=None, tokens=_M.tokens + _M.spared_tokens)
        .returning(_M.active, _M.spared_tokens)
    )
    spared = [tokens for active, tokens in found if active]
    return Amount(len(spared), sum(spared))
