"""Answers of models, kept until they are committed, so that no question is asked twice."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import Connection, bindparam, delete, select

from storage.engine import Database, clock, insert_of
from storage.models import Answer, table_of

_ANSWERS = table_of(Answer)
_GIVEN = ("text", "model", "prompt_tokens", "completion_tokens", "model_ms")
_TO_QUESTION = (
    _ANSWERS.c.session_key == bindparam("key"),
    _ANSWERS.c.question == bindparam("asked"),
)
# Built once, since every pass runs them.
_FIND = select(*(_ANSWERS.c[name] for name in _GIVEN)).where(*_TO_QUESTION)
_DROP = delete(_ANSWERS).where(*_TO_QUESTION)


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """An accepted answer. Token counts are None where the model did not report them."""

    text: str
    model: str
    prompt_tokens: int | None
    completion_tokens: int | None
    model_ms: int


def find(connection: Connection, key: int, question: str) -> StoredAnswer | None:
    """Return the answer to a question of this session, if it was given already."""
    row = connection.execute(_FIND, {"key": key, "asked": question}).first()
    return None if row is None else StoredAnswer(*row)


def keep(
    connection: Connection, database: Database, key: int, question: str, answer: StoredAnswer
) -> None:
    """Store an answer; the first one to a question stays."""
    connection.execute(
        _keep(database.dialect, database.offset_ms),
        {
            "session_key": key,
            "question": question,
            **{name: getattr(answer, name) for name in _GIVEN},
        },
    )


def drop(connection: Connection, key: int, question: str) -> None:
    """Delete an answer: it was committed or cannot be used."""
    connection.execute(_DROP, {"key": key, "asked": question})


def drop_all(connection: Connection, key: int, *, prefix: str = "", but: str = "") -> None:
    """Delete every answer of a session to questions that begin with `prefix` and not with `but`,
    when no open pass waits for one of them."""
    connection.execute(_drop_all(prefix, but), {"key": key})


@cache
def _keep(dialect: str, offset_ms: int) -> Any:
    given: dict[str, Any] = {name: bindparam(name) for name in ("session_key", "question", *_GIVEN)}
    statement = insert_of(dialect, _ANSWERS).values(**given, created_at=clock(dialect, offset_ms))
    return statement.on_conflict_do_nothing()


@cache
def _drop_all(prefix: str, but: str) -> Any:
    which = [_ANSWERS.c.session_key == bindparam("key")]
    if prefix:
        which.append(_ANSWERS.c.question.startswith(prefix, autoescape=True))
    if but:
        which.append(~_ANSWERS.c.question.startswith(but, autoescape=True))
    return delete(_ANSWERS).where(*which)
