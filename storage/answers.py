"""What a model said, kept until it is committed, so that it is never asked twice."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, delete, select

from storage.engine import Database, insert_into
from storage.models import Answer


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """An accepted answer. Token counts are None where the model did not tell."""

    text: str
    model: str
    prompt_tokens: int | None
    completion_tokens: int | None
    model_ms: int


def find(connection: Connection, key: int, question: str) -> StoredAnswer | None:
    """The answer to a question of this session, if it was given already."""
    row = connection.execute(
        select(
            Answer.text,
            Answer.model,
            Answer.prompt_tokens,
            Answer.completion_tokens,
            Answer.model_ms,
        ).where(Answer.session_key == key, Answer.question == question)
    ).first()
    return None if row is None else StoredAnswer(*row)


def keep(
    connection: Connection, database: Database, key: int, question: str, answer: StoredAnswer
) -> None:
    """Store an answer; the first one to a question stays."""
    connection.execute(
        insert_into(connection, Answer)
        .values(
            session_key=key,
            question=question,
            text=answer.text,
            model=answer.model,
            prompt_tokens=answer.prompt_tokens,
            completion_tokens=answer.completion_tokens,
            model_ms=answer.model_ms,
            created_at=database.now(),
        )
        .on_conflict_do_nothing()
    )


def drop(connection: Connection, key: int, question: str) -> None:
    """Forget an answer: it was committed or is of no use."""
    connection.execute(delete(Answer).where(Answer.session_key == key, Answer.question == question))


def drop_all(connection: Connection, key: int, *, prefix: str = "", but: str = "") -> None:
    """Forget every answer of a session to questions that begin with `prefix` and not with `but`,
    when none of them is waited for."""
    which = [Answer.session_key == key, Answer.question.startswith(prefix, autoescape=True)]
    if but:
        which.append(~Answer.question.startswith(but, autoescape=True))
    connection.execute(delete(Answer).where(*which))
