"""Signals that gateways read about their sessions. Figures, never text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, func, insert, literal, select

from storage.engine import Database
from storage.models import Session, table_of
from storage.models import Signal as SignalRow
from storage.types import EscapedText

# For inserts: the table avoids the overhead of the mapped class.
_SIGNALS = table_of(SignalRow)

_EMITTING = 0x5161
"""First number of the advisory locks for emitting; the second one stands for the owner."""


class SignalKind(StrEnum):
    STARTED = "compaction_started"
    FINISHED = "compaction_finished"
    """Facts: messages and tokens before and after."""
    FAILED = "compaction_failed"
    COOLDOWN = "cooldown"
    """Automatic passes rest. Facts: until when, in milliseconds since 1970 (UTC)."""
    PLACEHOLDER = "placeholder_in_use"
    PLACEHOLDER_REPLACED = "placeholder_replaced"
    STUCK = "compression_stuck"
    """This session cannot be made smaller any more: the user needs a new one."""
    EXHAUSTED = "compression_exhausted"
    RESET = "session_reset"
    COMPACT_THREAD = "compact_your_thread"
    """The gateway is to have Codex compact the thread that it owns."""


@dataclass(frozen=True, slots=True)
class Signal:
    """One signal. `id` grows, `at` is in milliseconds since 1970 (UTC). `quiet` marks progress that
    need not be shown to the user, while `progress_notices` is off."""

    id: int
    owner: str
    session_id: str
    kind: SignalKind
    quiet: bool
    facts: Mapping[str, Any]
    at: int


def emit(
    connection: Connection,
    database: Database,
    key: int,
    kind: SignalKind,
    facts: Mapping[str, Any],
    *,
    quiet: bool,
) -> Signal:
    """Store a signal of a session in the caller's transaction.

    The caller holds the session's row. Signals of one owner become visible in the order of their
    ids, so this waits for transactions that have emitted another one: call it late.
    """
    owner, session_id = connection.execute(
        select(Session.owner, Session.id).where(Session.key == key)
    ).one()
    if database.dialect == "postgresql":
        # Until the commit: a reader that has seen an id must not see a lower one appear later.
        turn = func.hashtext(literal(owner, EscapedText()))
        connection.execute(select(func.pg_advisory_xact_lock(_EMITTING, turn)))
    stored = connection.execute(
        insert(_SIGNALS)
        .values(
            session_key=key,
            owner=owner,
            kind=kind,
            quiet=int(quiet),
            facts=json.dumps(facts),
            created_at=database.now(),
        )
        .returning(_SIGNALS.c.id, _SIGNALS.c.created_at)
    ).one()
    return Signal(stored.id, owner, session_id, kind, quiet, facts, stored.created_at)


def read(
    connection: Connection,
    *,
    owner: str,
    key: int | None = None,
    after: int = 0,
    quiet: bool = False,
    limit: int = 100,
    last: bool = False,
) -> list[Signal]:
    """Return the owner's signals with an id above `after`, oldest first, of one session or of all.

    At most `limit`: the oldest ones, or the `last` ones. `quiet` ones are left out unless
    requested, and so are kinds of a newer version.
    """
    query = (
        select(
            SignalRow.id,
            SignalRow.owner,
            Session.id.label("session_id"),
            SignalRow.kind,
            SignalRow.quiet,
            SignalRow.facts,
            SignalRow.created_at,
        )
        .join(Session, Session.key == SignalRow.session_key)
        .where(SignalRow.owner == owner, SignalRow.id > after, SignalRow.kind.in_(list(SignalKind)))
        .order_by(SignalRow.id.desc() if last else SignalRow.id)
        .limit(limit)
    )
    if key is not None:
        query = query.where(SignalRow.session_key == key)
    if not quiet:
        query = query.where(SignalRow.quiet == 0)
    found = [
        Signal(
            row.id,
            row.owner,
            row.session_id,
            SignalKind(row.kind),
            bool(row.quiet),
            json.loads(row.facts),
            row.created_at,
        )
        for row in connection.execute(query)
    ]
    return found[::-1] if last else found


def newest(connection: Connection, *, owner: str) -> int:
    """Return the id of the owner's last signal, 0 when there is none: where listening begins."""
    found = connection.execute(
        select(func.max(SignalRow.id)).where(SignalRow.owner == owner)
    ).scalar_one()
    return found or 0


def to_json(signal: Signal) -> str:
    """Return a signal as it is pushed, on one line."""
    return json.dumps(
        {
            "id": signal.id,
            "owner": signal.owner,
            "session": signal.session_id,
            "kind": signal.kind.value,
            "quiet": signal.quiet,
            "facts": dict(signal.facts),
            "at": signal.at,
        }
    )


def from_json(text: str | bytes) -> Signal:
    """Read a pushed signal. Raises `ValueError` for other text and for unknown kinds."""
    try:
        found = json.loads(text)
        return Signal(
            id=int(found["id"]),
            owner=str(found["owner"]),
            session_id=str(found["session"]),
            kind=SignalKind(found["kind"]),
            quiet=bool(found["quiet"]),
            facts=dict(found["facts"]),
            at=int(found["at"]),
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"no signal: {type(error).__name__}") from None
