"""Sessions: their owners, their models and their counters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    CursorResult,
    Select,
    bindparam,
    case,
    func,
    or_,
    select,
    update,
)
from sqlalchemy import text as sql

from storage.conversations.cursors import CursorName
from storage.engine import Database, clock, insert_into
from storage.errors import SessionNotFound
from storage.models import LIVE, MESSAGE_ROW, Cursor, Message, Session, SystemPrompt, table_of
from storage.types import among, rows_given

_S = Session
_SESSIONS = table_of(Session)
# Without the columns that only scans use.
COLUMNS: tuple[Any, ...] = tuple(
    column
    for column in Session.__table__.columns
    if column.name not in ("decided_turns", "idle_since")
)
_NAMES = tuple(column.name for column in COLUMNS)

# Built once, since every job runs them and building takes longer than the database.
_FETCH = select(*COLUMNS).where(_SESSIONS.c.key == bindparam("key"))
_LOCK = _FETCH.with_for_update(key_share=True)


def _live_tokens_of(*where: ColumnElement[bool]) -> ColumnElement[int]:
    """Return the tokens of a session's live messages that meet `where`, as a part of a
    statement."""
    message = table_of(Message).c
    return (
        select(func.coalesce(func.sum(message.tokens), 0))
        .where(message.session_key == _SESSIONS.c.key, sql(LIVE), sql(MESSAGE_ROW), *where)
        .scalar_subquery()
    )


def _micro_cursor() -> ColumnElement[int]:
    at = table_of(Cursor).c
    is_cursor = (at.session_key == _SESSIONS.c.key, at.name == CursorName.MICRO)
    position = select(at.position).where(*is_cursor).correlate(_SESSIONS).scalar_subquery()
    return func.coalesce(position, 0)


RECOUNTED = _live_tokens_of(table_of(Message).c.position >= _micro_cursor())
"""The true value of `unabsorbed_tokens`. Reads all live rows from the cursor on, so a turn or a
micro pass applies its difference instead."""

_PASSED = _live_tokens_of(
    table_of(Message).c.position >= bindparam("cursor_from", type_=BigInteger),
    table_of(Message).c.position < bindparam("cursor_to", type_=BigInteger),
)
"""What stays live between two positions of the cursor."""

_UNCHECKED = 0
_CHANGE = {
    "revision": _SESSIONS.c.revision + 1,
    "live_messages": _SESSIONS.c.live_messages + bindparam("rows", type_=BigInteger),
    "live_tokens": _SESSIONS.c.live_tokens + bindparam("size", type_=BigInteger),
    "passes": _SESSIONS.c.passes + bindparam("more", type_=BigInteger),
    "tokens_saved": _SESSIONS.c.tokens_saved + bindparam("gained", type_=BigInteger),
}
_IS_CHANGED = _SESSIONS.c.key == bindparam("session")
_COUNT_CHANGE = (
    update(_SESSIONS)
    .where(_IS_CHANGED)
    .values(**_CHANGE, unabsorbed_tokens=RECOUNTED, checked_tokens=_UNCHECKED)
    .returning(*COLUMNS)
)
_COUNT_MICRO_PASS = (
    update(_SESSIONS)
    .where(_IS_CHANGED)
    .values(
        **_CHANGE,
        unabsorbed_tokens=_SESSIONS.c.unabsorbed_tokens
        - bindparam("absorbed", type_=BigInteger)
        - _PASSED,
        checked_tokens=bindparam("checked", type_=BigInteger),
    )
    .returning(*COLUMNS)
)
_COUNT_SKIPPED = (
    update(_SESSIONS)
    .where(_IS_CHANGED)
    .values(unabsorbed_tokens=_SESSIONS.c.unabsorbed_tokens - _PASSED, checked_tokens=_UNCHECKED)
)


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """A stored session. Times are milliseconds since 1970 (UTC); tokens are estimates.

    `declared_window` is a smaller window that the provider reported in an error, `managed_by` who
    else compacts the conversation (`codex`, `openai`), `calibration` JSON of the relation between
    estimates and the provider's counts (see docs/explanation/tokens.md).

    `unabsorbed_tokens` are those of the live messages from the cursor `micro` on, markers left out.
    `checked_tokens` is what they came to when the rows were last read and held nothing for a micro
    pass; 0 if the view is new or has changed since in another way than by growth, None after a
    pass that left less than another one needs.
    """

    key: int
    owner: str
    id: str
    source: str
    chat_id: str | None
    thread_id: str
    title: str | None
    model: str
    model_config: str | None
    context_window: int | None
    reserved_output: int
    declared_window: int | None
    managed_by: str | None
    calibration: str | None
    parent_key: int | None
    link: str | None
    revision: int
    next_position: int
    turns: int
    turn_open: bool
    unabsorbed_tokens: int
    checked_tokens: int | None
    live_messages: int
    live_tokens: int
    passes: int
    tokens_saved: int
    started_at: int
    active_at: int
    ended_at: int | None
    archived_at: int | None


def create(
    connection: Connection, database: Database, values: dict[str, Any]
) -> SessionRecord | None:
    """Insert a session; None when one with that id, chat or title exists already."""
    now = database.now()
    row = connection.execute(
        insert_into(connection, Session)
        .values(**values, decided_turns=0, started_at=now, active_at=now)
        .on_conflict_do_nothing()
        .returning(*COLUMNS)
    )
    found = row.first()
    return None if found is None else record_of(found)


def find(connection: Connection, *, owner: str, session_id: str) -> SessionRecord | None:
    """Return the owner's session with this id."""
    return _first(connection, select(*COLUMNS).where(_S.owner == owner, _S.id == session_id))


def find_chat(
    connection: Connection, *, owner: str, source: str, chat_id: str, thread_id: str
) -> SessionRecord | None:
    """Return the owner's session of that chat and thread that is not closed."""
    return _first(
        connection,
        select(*COLUMNS).where(
            _S.owner == owner,
            _S.source == source,
            _S.chat_id == chat_id,
            _S.thread_id == thread_id,
            _S.ended_at.is_(None),
        ),
    )


def has_title(connection: Connection, *, owner: str, title: str) -> bool:
    """Return whether the owner uses that title."""
    found = connection.execute(select(_S.key).where(_S.owner == owner, _S.title == title))
    return found.first() is not None


def fetch(connection: Connection, key: int) -> SessionRecord:
    """Return the session with this key. Raises `SessionNotFound`."""
    return _the_one(key, connection.execute(_FETCH, {"key": key}))


def lock(connection: Connection, key: int) -> SessionRecord:
    """Lock the session's row for this transaction and return it.

    Every transaction that writes for a session starts here or with a statement that updates this
    row, so two of them never deadlock. Raises `SessionNotFound`.
    """
    return _the_one(key, connection.execute(_LOCK, {"key": key}))


def lock_many(connection: Connection, keys: Sequence[int]) -> dict[int, SessionRecord]:
    """Return the same with several sessions that exist, by key. They are locked in the order of
    keys, as everywhere where more than one is."""
    rows = connection.execute(_of_many(connection.dialect.name, lock=True), {"keys": keys})
    return {row.key: record_of(row) for row in rows}


def note_decided(
    connection: Connection, turns: Mapping[int, int], checked: Mapping[int, int | None]
) -> None:
    """Record by key up to which turn it is decided what a session's turns make due, and its
    `checked_tokens` where its rows were read and had nothing. The caller holds their rows."""
    if not turns:
        return
    connection.execute(
        _note_decided(connection.dialect.name),
        {
            "session": list(turns),
            "decided": list(turns.values()),
            "checked": [checked.get(key) for key in turns],
        },
    )


@cache
def _note_decided(dialect: str) -> Any:
    given = rows_given(dialect, session=BigInteger, decided=BigInteger, checked=BigInteger).c
    return (
        update(_SESSIONS)
        .where(_SESSIONS.c.key == given.session)
        .values(
            decided_turns=given.decided,
            checked_tokens=func.coalesce(given.checked, _SESSIONS.c.checked_tokens),
        )
    )


def page(
    connection: Connection,
    *,
    owner: str | None = None,
    source: str | None = None,
    limit: int = 20,
    before: tuple[int, int] | None = None,
) -> list[SessionRecord]:
    """Return sessions by last activity, newest first; `before` is (active_at, key) of the last
    seen."""
    query = select(*COLUMNS).order_by(_S.active_at.desc(), _S.key.desc()).limit(limit)
    if owner is not None:
        query = query.where(_S.owner == owner)
    if source is not None:
        query = query.where(_S.source == source)
    if before is not None:
        query = query.where(
            or_(
                _S.active_at < before[0],
                (_S.active_at == before[0]) & (_S.key < before[1]),
            )
        )
    return [record_of(row) for row in connection.execute(query)]


def fetch_many(connection: Connection, keys: Sequence[int]) -> dict[int, SessionRecord]:
    """Return the sessions of those keys, by key."""
    rows = connection.execute(_of_many(connection.dialect.name), {"keys": keys})
    return {row.key: record_of(row) for row in rows}


@cache
def _of_many(dialect: str, *, lock: bool = False) -> Any:
    """Return the statement of `fetch_many` and `lock_many`, built once: every turn job runs
    both."""
    query = select(*COLUMNS).where(among(_SESSIONS.c.key, "keys", dialect))
    return query.order_by(_SESSIONS.c.key).with_for_update(key_share=True) if lock else query


def idle_ms(connection: Connection, database: Database, key: int) -> int:
    """Return how long ago the session was active, in milliseconds."""
    found = connection.execute(select(database.now() - _S.active_at).where(_S.key == key))
    return int(found.scalar_one())


def count_appended(
    connection: Connection,
    database: Database,
    key: int,
    *,
    rows: int,
    tokens: int,
    closes_turn: bool,
    reported: bool = False,
) -> SessionRecord | None:
    """Count appended rows in and reserve their positions; None when there is no such session.

    `reported` says that usage came with them, which needs a decision even if no turn is closed. The
    positions are the `rows` ones that end before the record's `next_position`.
    """
    found = connection.execute(
        _count_appended(database.dialect, database.offset_ms),
        {
            "session": key,
            "appended": rows,
            "estimated": tokens,
            "closed": int(closes_turn),
            "open": int(not closes_turn),
            "reported": int(reported and not closes_turn),
        },
    )
    row = found.first()
    return None if row is None else record_of(row)


@cache
def _count_appended(dialect: str, offset_ms: int) -> Any:
    """Build the statement of `count_appended` once: every turn runs it."""
    appended = bindparam("appended", type_=BigInteger)
    estimated = bindparam("estimated", type_=BigInteger)
    return (
        update(_SESSIONS)
        .where(_SESSIONS.c.key == bindparam("session"))
        .values(
            next_position=_SESSIONS.c.next_position + appended,
            live_messages=_SESSIONS.c.live_messages + appended,
            live_tokens=_SESSIONS.c.live_tokens + estimated,
            unabsorbed_tokens=_SESSIONS.c.unabsorbed_tokens + estimated,
            turns=_SESSIONS.c.turns + bindparam("closed", type_=BigInteger),
            turn_open=bindparam("open"),
            # A session of an older version is decided from this turn on.
            decided_turns=func.coalesce(_SESSIONS.c.decided_turns, _SESSIONS.c.turns)
            - bindparam("reported", type_=BigInteger),
            active_at=clock(dialect, offset_ms),
            idle_since=clock(dialect, offset_ms),
        )
        .returning(*COLUMNS)
    )


def count_change(
    connection: Connection,
    key: int,
    *,
    messages: int,
    tokens: int,
    passes: int = 0,
    saved: int = 0,
) -> SessionRecord:
    """Count a change of the live view in, once its rows and the cursor `micro` are in place.

    Takes deltas of messages and tokens; the revision grows by one. The caller holds the session's
    row.
    """
    given = _change(key, messages=messages, tokens=tokens, passes=passes, saved=saved)
    return _the_one(key, connection.execute(_COUNT_CHANGE, given))


def count_micro_pass(
    connection: Connection,
    key: int,
    *,
    messages: int,
    tokens: int,
    absorbed: int,
    cursor_from: int,
    cursor_to: int,
    checked: int | None = None,
) -> SessionRecord:
    """Count a micro pass in as `count_change` does, at a cost that depends on the pass alone.

    `absorbed` are the tokens of the messages that it archived, and the cursor has moved from
    `cursor_from` to `cursor_to`. `checked` is what `checked_tokens` becomes.
    """
    given = _change(key, messages=messages, tokens=tokens, passes=1, saved=-tokens)
    moved = {"absorbed": absorbed, "cursor_from": cursor_from, "cursor_to": cursor_to}
    found = connection.execute(_COUNT_MICRO_PASS, {**given, **moved, "checked": checked})
    return _the_one(key, found)


def count_skipped(connection: Connection, key: int, *, cursor_from: int, cursor_to: int) -> None:
    """Count in that the cursor `micro` has moved over rows that stay live."""
    moved = {"session": key, "cursor_from": cursor_from, "cursor_to": cursor_to}
    connection.execute(_COUNT_SKIPPED, moved)


def _change(key: int, *, messages: int, tokens: int, passes: int, saved: int) -> dict[str, Any]:
    return {
        "session": key,
        "rows": messages,
        "size": tokens,
        "more": passes,
        "gained": saved,
    }


def close_turn(connection: Connection, key: int) -> None:
    """Mark that no turn is open, without counting one."""
    connection.execute(update(_S).where(_S.key == key).values(turn_open=0))


def set_model(
    connection: Connection,
    key: int,
    *,
    model: str,
    model_config: str | None,
    context_window: int | None,
    reserved_output: int,
) -> SessionRecord:
    """Change model and window. Where something changed, the revision grows, and what was learned of
    the old one is dropped."""
    same = (
        (_S.model == model)
        & (_S.context_window.is_not_distinct_from(context_window))
        & (_S.reserved_output == reserved_output)
    )
    return _changed(
        connection,
        key,
        {
            "revision": _S.revision + case((same, 0), else_=1),
            "model": model,
            "model_config": model_config,
            "context_window": context_window,
            "reserved_output": reserved_output,
            "declared_window": case((same, _S.declared_window), else_=None),
            "checked_tokens": case((same, _S.checked_tokens), else_=_UNCHECKED),
            "calibration": case((same, _S.calibration), else_=None),
        },
    )


def declare_window(connection: Connection, key: int, window: int) -> SessionRecord:
    """Record that the provider takes no more than `window` tokens; never raises a known window.

    The revision grows where that changed something.
    """
    known = func.coalesce(_S.declared_window, _S.context_window, window + 1)
    smaller = known > window
    return _changed(
        connection,
        key,
        {
            "revision": _S.revision + case((smaller, 1), else_=0),
            "declared_window": case((smaller, window), else_=_S.declared_window),
            "checked_tokens": case((smaller, _UNCHECKED), else_=_S.checked_tokens),
        },
    )


def set_managed_by(connection: Connection, key: int, managed_by: str | None) -> SessionRecord:
    """Record who else compacts the conversation; None for no one."""
    return _changed(connection, key, {"managed_by": managed_by})


def calibrate(connection: Connection, key: int, calibration: str) -> None:
    """Store the relation between estimates and the provider's counts, as JSON."""
    connection.execute(update(_S).where(_S.key == key).values(calibration=calibration))


def note_checked(connection: Connection, key: int, tokens: int) -> None:
    """Record that the session's rows had nothing for a micro pass at so many unabsorbed tokens."""
    connection.execute(update(_S).where(_S.key == key).values(checked_tokens=tokens))


def close(connection: Connection, database: Database, key: int) -> SessionRecord:
    """Mark the session as ended; it stays readable and can be opened again by its id."""
    return _changed(connection, key, {"ended_at": database.now(), "turn_open": 0})


def reopen(connection: Connection, key: int) -> SessionRecord:
    """Remove the end mark."""
    return _changed(connection, key, {"ended_at": None})


def keep_prompt(connection: Connection, key: int, prompt: str) -> None:
    """Store `prompt` as the session's system prompt unless it has one already."""
    connection.execute(
        insert_into(connection, SystemPrompt)
        .values(session_key=key, prompt=prompt)
        .on_conflict_do_nothing()
    )


def read_prompt(connection: Connection, key: int) -> str | None:
    """Return the session's first system prompt."""
    return connection.execute(
        select(SystemPrompt.prompt).where(SystemPrompt.session_key == key)
    ).scalar_one_or_none()


def _changed(connection: Connection, key: int, values: dict[str, Any]) -> SessionRecord:
    found = connection.execute(
        update(_SESSIONS).where(_SESSIONS.c.key == key).values(**values).returning(*COLUMNS)
    )
    return _the_one(key, found)


def _the_one(key: int, found: CursorResult[Any]) -> SessionRecord:
    row = found.first()
    if row is None:
        raise SessionNotFound(str(key), "")
    return record_of(row)


def _first(connection: Connection, query: Select[*tuple[Any, ...]]) -> SessionRecord | None:
    found = connection.execute(query).first()
    return None if found is None else record_of(found)


def record_of(row: Sequence[Any]) -> SessionRecord:
    """Return the record of a row of `COLUMNS`."""
    values = dict(zip(_NAMES, row, strict=True))
    return SessionRecord(**{**values, "turn_open": bool(values["turn_open"])})
