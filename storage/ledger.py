"""A session's messages and passes as figures in order of time: what a report adds up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, Text, func, or_, select, type_coerce
from sqlalchemy import text as sql

from storage.models import MESSAGE_ROW, Attempt, Message, Session, Summary


@dataclass(frozen=True, slots=True)
class RowFigures:
    """A message that is live or archived. `tokens` are those of its original; `hidden` says that it
    was archived before it came here (an import)."""

    position: int
    role: str
    tokens: int
    opens_turn: bool
    hidden: bool
    at: int


@dataclass(frozen=True, slots=True)
class PassFigures:
    """A try of a pass: live tokens before and after it, and what it asked a model for."""

    kind: str
    trigger: str
    outcome: str
    tokens_before: int
    tokens_after: int
    prompt_tokens: int
    completion_tokens: int
    model: str
    at: int


def rows(connection: Connection, key: int, *, imported: str) -> list[RowFigures]:
    """Every message of a session in order of position. `imported` is the template of summaries
    that came along with it."""
    found = connection.execute(
        select(
            Message.position,
            type_coerce(Message.role, Text),
            Message.tokens + func.coalesce(Message.spared_tokens, 0),
            Message.opens_turn,
            func.coalesce(Summary.template, "") == imported,
            Message.created_at,
        )
        .outerjoin(Summary, Summary.id == Message.absorbed_by)
        .where(
            Message.session_key == key,
            sql(f"messages.{MESSAGE_ROW}"),
            or_(Message.active == 1, Message.compacted == 1),
        )
        .order_by(Message.position)
    )
    return [
        RowFigures(position, role or "", tokens, opens == 1, bool(hidden), at)
        for position, role, tokens, opens, hidden, at in found
    ]


def passes(connection: Connection, key: int) -> list[PassFigures]:
    """Every try that a session had and that is still stored, oldest first."""
    found = connection.execute(
        select(
            Attempt.kind,
            Attempt.trigger,
            Attempt.outcome,
            Attempt.tokens_before,
            Attempt.tokens_after,
            func.coalesce(Attempt.prompt_tokens, 0),
            func.coalesce(Attempt.completion_tokens, 0),
            Attempt.model,
            Attempt.created_at,
        )
        .where(Attempt.session_key == key)
        .order_by(Attempt.id)
    )
    return [PassFigures(*row) for row in found]


def most_saving(connection: Connection, *, owner: str | None, limit: int) -> Sequence[int]:
    """Keys of sessions that had a pass, those that saved most in front."""
    query = select(Session.key).where(Session.passes > 0)
    if owner is not None:
        query = query.where(Session.owner == owner)
    query = query.order_by(Session.tokens_saved.desc(), Session.key).limit(limit)
    return list(connection.execute(query).scalars())
