"""Store what a gateway tells of a turn: rows, event and due job in one transaction."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection

from producers.drafts import TurnDraft
from producers.receipt import Receipt
from producers.usage import Usage
from storage import events, jobs, messages, sessions
from storage.engine import Database
from storage.errors import EventConflict, StorageError
from storage.jobs import DueJob, JobKind
from storage.sessions import SessionRecord
from tasks.names import TURNS
from workers.telemetry.log_lines import Field, LogEvent, log_event

log = logging.getLogger(__name__)

TURN_TRIGGER = "turn"


@dataclass(frozen=True, slots=True)
class Told:
    """What a gateway tells in one call."""

    event_id: str
    draft: TurnDraft
    usage: Usage | None
    closes_turn: bool


def store(
    connection: Connection,
    database: Database,
    key: int,
    told: Told,
    *,
    ringing: bool,
    carrier: Mapping[str, str],
) -> tuple[Receipt, DueJob | None] | None:
    """Store it and make the turn's job due; None when there is no such session. `carrier` is what
    a trace of the job goes on from.

    The driver's IntegrityError tells that the event's id was used before.
    """
    draft = told.draft
    record = sessions.count_appended(
        connection,
        database,
        key,
        rows=len(draft.rows),
        tokens=draft.tokens,
        closes_turn=told.closes_turn,
        reported=told.usage is not None,
    )
    if record is None:
        return None
    first = record.next_position - len(draft.rows)
    closed = record.turns if told.closes_turn else None
    events.record(
        connection,
        record.key,
        event_id=told.event_id,
        digest=draft.digest,
        turn=closed,
        first_position=first,
        rows=len(draft.rows),
        usage=told.usage.dump() if told.usage else None,
        view_tokens=_sent_tokens(record, draft) if told.usage else None,
        revision=record.revision,
        at=record.active_at,
    )
    if draft.rows:
        messages.append(
            connection, record.key, draft.rows, first_position=first, at=record.active_at
        )
    due = None
    # What was counted in the middle of a turn may be too much already.
    if told.closes_turn or told.usage is not None:
        due = jobs.make_due(
            connection,
            database,
            record.key,
            kind=JobKind.TURN,
            queue=TURNS,
            trigger=TURN_TRIGGER,
            ringing=ringing,
            correlation={"event": told.event_id, **carrier},
        )
    copied = tuple(first + index for index in draft.copied)
    receipt = Receipt(
        record.id,
        told.event_id,
        closed,
        first,
        len(draft.rows),
        repeated=False,
        copied_notes=copied,
    )
    return receipt, due


def receipt_again(connection: Connection, record: SessionRecord, told: Told) -> Receipt:
    """The receipt of the call that stored this event first.

    Raises `EventConflict` when other messages were stored under its id, and `StorageError` when
    there is no such event, so that something else was contradicted.
    """
    stored = events.find(connection, record.key, told.event_id)
    if stored is None:
        raise StorageError(
            f"session {record.id!r}: the turn contradicts what is stored; nothing was stored"
        )
    if stored.digest != told.draft.digest:
        raise EventConflict(record.id, told.event_id) from None
    return Receipt(
        record.id,
        told.event_id,
        stored.turn,
        stored.first_position,
        stored.rows,
        repeated=True,
        copied_notes=tuple(stored.first_position + index for index in told.draft.copied),
    )


def tell_stored(owner: str, receipt: Receipt, due: DueJob | None) -> None:
    """Tell the log what a gateway stored; `due` is the job that it made due."""
    facts: dict[str, Field] = {
        "owner": owner,
        "session": receipt.session_id,
        "event_id": receipt.event_id,
        "turn": receipt.turn,
        "rows": receipt.rows,
        "repeated": receipt.repeated or None,
        "job": None if due is None else due.id,
    }
    log_event(log, LogEvent.TURN_STORED, facts)


def _sent_tokens(record: SessionRecord, draft: TurnDraft) -> int | None:
    """Our estimate of the view that the last request of a call's rows was sent with.

    The answer and what follows it were not in it yet. Rows without an answer do not tell which
    request is meant; without any rows, it is the last one.
    """
    behind = 0
    for row in reversed(draft.rows):
        behind += row.tokens
        if row.role == "assistant":
            return record.live_tokens - behind
    return None if draft.rows else record.live_tokens
