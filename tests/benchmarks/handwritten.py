"""What `finalize_turn` stores, in the plainest way: a driver, a few statements, one transaction.

The values are ready beforehand, so nothing is checked, estimated or encoded here.
"""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any, Protocol
from uuid import uuid4

import psycopg
from sqlalchemy import make_url

from storage.conversations.payload import split
from tests.support.sessions.play import ChatDict
from workers.conversation.messages import outline
from workers.conversation.tokens import estimate_message

Values = Mapping[str, Any]

_CLOCKS = {
    "sqlite": "CAST((julianday('now') - 2440587.5) * 86400000.0 AS INTEGER)",
    "postgresql": "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)",
}

_COUNT = """
UPDATE sessions SET next_position = next_position + :rows, live_messages = live_messages + :rows,
    live_tokens = live_tokens + :tokens, unabsorbed_tokens = unabsorbed_tokens + :tokens,
    turns = turns + 1, turn_open = 0, active_at = {clock}, idle_since = {clock}
WHERE key = :key RETURNING next_position, turns, revision, active_at
"""
_EVENT = """
INSERT INTO turn_events
    (session_key, event_id, digest, turn, first_position, rows, revision, created_at)
VALUES (:key, :event_id, :digest, :turn, :first_position, :rows, :revision, :at)
"""
_MESSAGE = """
INSERT INTO messages (session_key, position, role, origin, opens_turn, tokens, call_ids,
    answer_ids, content, fields, created_at)
VALUES (:session_key, :position, :role, :origin, :opens_turn, :tokens, :call_ids,
    :answer_ids, :content, :fields, :created_at)
"""
_JOB = """
INSERT INTO jobs
    (session_key, owner, kind, queue, trigger, run_at, notified_at, created_at, updated_at)
VALUES (:key, (SELECT owner FROM sessions WHERE key = :key), 'turn', 'turns', 'turn', {clock},
    {clock}, {clock}, {clock})
ON CONFLICT (session_key, kind) WHERE state IN ('due', 'running') DO UPDATE
SET again = CASE WHEN jobs.state = 'running' THEN 1 ELSE jobs.again END, updated_at = {clock}
RETURNING id
"""


class HandWritten(Protocol):
    """Stores turns of one session."""

    def store(self, key: int, turn: Values, messages: Sequence[Values]) -> int:
        """Store a turn of `turn_values` and `row_values`, and give the id of its job."""

    def close(self) -> None: ...


class HandWrittenSqlite:
    """One connection with the pragmas that ours has."""

    def __init__(self, url: str) -> None:
        path = make_url(url).database or ""
        self._connection = sqlite3.connect(path, isolation_level=None)
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
            self._connection.execute(f"PRAGMA {pragma}").fetchall()
        self._statements = [_with_clock(s, "sqlite") for s in (_COUNT, _EVENT, _MESSAGE, _JOB)]

    def store(self, key: int, turn: Values, messages: Sequence[Values]) -> int:
        cursor = self._connection.cursor()
        count, event, message, job = self._statements
        cursor.execute("BEGIN IMMEDIATE")
        cursor.execute(count, {**turn, "key": key, "rows": len(messages)})
        counted = cursor.fetchone()
        cursor.execute(event, _event(key, turn, len(messages), counted))
        cursor.executemany(message, _rows(key, messages, counted))
        cursor.execute(job, {"key": key})
        identifier: int = cursor.fetchone()[0]
        cursor.execute("COMMIT")
        return identifier

    def close(self) -> None:
        self._connection.close()


class HandWrittenPostgres:
    """One connection, left as the driver makes it."""

    def __init__(self, url: str) -> None:
        address = make_url(url).set(drivername="postgresql")
        self._connection = psycopg.connect(address.render_as_string(hide_password=False))
        named = (_with_clock(s, "postgresql") for s in (_COUNT, _EVENT, _MESSAGE, _JOB))
        self._statements = [re.sub(r":(\w+)", r"%(\1)s", s).encode() for s in named]

    def store(self, key: int, turn: Values, messages: Sequence[Values]) -> int:
        count, event, message, job = self._statements
        with self._connection.transaction(), self._connection.cursor() as cursor:
            counted = cursor.execute(count, {**turn, "key": key, "rows": len(messages)}).fetchone()
            assert counted is not None, "there is no such session"
            cursor.execute(event, _event(key, turn, len(messages), counted))
            cursor.executemany(message, _rows(key, messages, counted))
            due = cursor.execute(job, {"key": key}).fetchone()
            assert due is not None, "RETURNING gives a row"
        return int(due[0])

    def close(self) -> None:
        self._connection.close()


def hand_written(database: str, url: str) -> HandWritten:
    """Return the one for a database of that kind."""
    return HandWrittenPostgres(url) if database == "postgresql" else HandWrittenSqlite(url)


def turn_values(messages: Sequence[ChatDict]) -> Values:
    """Return what the statements need of a turn."""
    return {
        "event_id": uuid4().hex,
        "digest": hashlib.sha256(json.dumps(messages).encode()).hexdigest(),
        "tokens": sum(map(estimate_message, messages)),
    }


def row_values(message: ChatDict) -> Values:
    """Return what the row of a message holds, but for session, position and time."""
    facts = outline(message, None)
    content, fields = split(message)
    return {
        "role": facts.role,
        "origin": facts.origin,
        "opens_turn": int(facts.opens_turn),
        "tokens": estimate_message(message),
        "call_ids": json.dumps(facts.calls) if facts.calls else None,
        "answer_ids": json.dumps(facts.answers) if facts.answers else None,
        "content": content,
        "fields": fields,
    }


def _with_clock(statement: str, database: str) -> str:
    return statement.format(clock=_CLOCKS[database])


def _event(key: int, turn: Values, rows: int, counted: tuple[Any, ...]) -> Values:
    next_position, number, revision, at = counted
    return {
        **turn,
        "key": key,
        "turn": number,
        "first_position": next_position - rows,
        "rows": rows,
        "revision": revision,
        "at": at,
    }


def _rows(key: int, messages: Sequence[Values], counted: tuple[Any, ...]) -> list[Values]:
    first, at = counted[0] - len(messages), counted[3]
    return [
        {**message, "session_key": key, "position": position, "created_at": at}
        for position, message in enumerate(messages, start=first)
    ]
