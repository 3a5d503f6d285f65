"""Rows of a conversation without their text, enough for most decisions."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from sqlalchemy import ColumnElement, Text, literal_column, type_coerce

from storage.conversations.rows import Kind, Origin, Row
from storage.models import Message
from storage.types import unescape

_M = Message

MARKER_LAST: ColumnElement[int] = literal_column(
    "CASE WHEN messages.kind = 'message' THEN 0 ELSE 1 END"
)
"""Sorts a marker after the row at its position."""

# Untyped: outlines are read by the hundred, and a type that processes each value takes longer than
# the database.
OUTLINE = (
    _M.id,
    _M.position,
    type_coerce(_M.kind, Text).label("kind"),
    type_coerce(_M.role, Text).label("role"),
    type_coerce(_M.origin, Text).label("origin"),
    _M.opens_turn,
    _M.tokens,
    type_coerce(_M.call_ids, Text).label("call_ids"),
    type_coerce(_M.answer_ids, Text).label("answer_ids"),
    _M.summary_id,
)
"""The columns of an outline, in the order that `outlines` takes them in."""

_KINDS = {kind.value: kind for kind in Kind}
_ORIGINS: dict[str | None, Origin | None] = {
    None: None,
    **{origin.value: origin for origin in Origin},
}
_IDS_REMEMBERED = 4096


def outlines(found: Iterable[Any]) -> list[Row]:
    """Return the rows whose columns `OUTLINE` were read. A batch pass reads thousands, hence the
    plain loop."""
    return [
        Row(
            id=id_,
            position=position,
            kind=_KINDS[kind],
            role=None if role is None else unescape(role),
            origin=_ORIGINS[origin],
            opens_turn=opens_turn == 1,
            tokens=tokens,
            calls=() if calls is None else ids_of(calls),
            answers=() if answers is None else ids_of(answers),
            summary_id=summary_id,
        )
        for (
            id_,
            position,
            kind,
            role,
            origin,
            opens_turn,
            tokens,
            calls,
            answers,
            summary_id,
        ) in found
    ]


@lru_cache(maxsize=_IDS_REMEMBERED)
def ids_of(text: str) -> tuple[str, ...]:
    """Return the ids in a column of ids. Cached: a job reads its newest rows several times."""
    return tuple(json.loads(unescape(text)))
