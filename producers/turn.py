"""Storing of a gateway's messages: rows, event and due job in one transaction."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from sqlalchemy import Connection

from storage import jobs
from storage.conversations import events, messages, sessions
from storage.conversations.messages import Draft
from storage.conversations.rows import Origin
from storage.conversations.sessions import SessionRecord
from storage.engine import Database
from storage.errors import EventConflict, InputError, StorageError
from storage.jobs import DueJob, JobKind
from tasks.names import TURNS
from workers.conversation.messages import MessageError, check, outline
from workers.conversation.tokens import estimate_message
from workers.prune.notes import holds_note
from workers.prune.outputs import calls_of
from workers.telemetry.log_lines import Field, LogEvent, log_event

log = logging.getLogger(__name__)

TURN_TRIGGER = "turn"

Origins: TypeAlias = Mapping[int, Origin | str] | Sequence[Origin | str | None]
"""Who wrote user-role messages: by index into the messages, or one entry per message."""


class UsageError(InputError):
    """A usage report that cannot be read. Nothing of its turn was stored."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the provider counted them; `revision` is that of the context that was sent.

    Reasoning tokens belong to `completion_tokens` and never to the prompt.
    """

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    revision: int | None = None

    @classmethod
    def of(cls, report: Usage | Mapping[str, Any] | None) -> Usage | None:
        """Read a report: one of these, or a mapping such as the `usage` of a chat completion.

        Raises `UsageError` for a count that is not a whole number from 0 up.
        """
        if report is None:
            return None
        given = asdict(report) if isinstance(report, Usage) else report
        counts = {name: _count(given, name) for name in cls.__dataclass_fields__}
        return cls(**counts)

    def dump(self) -> str:
        """Return the known counts as JSON."""
        return json.dumps({k: v for k, v in asdict(self).items() if v is not None})


@dataclass(frozen=True, slots=True)
class Receipt:
    """A record of the stored messages of a gateway.

    `repeated` says that an earlier call with this event id had stored them. `turn` is the number of
    the turn that was closed, None while it stays open. The messages are the `rows` rows from
    `first_position` on. `copied_notes` are the positions of those with a tool call in which the
    model copied a note of ours instead of the text that it replaces: such a call is not what the
    model meant, and `Gateway.fetch_output` returns the text.
    """

    session_id: str
    event_id: str
    turn: int | None
    first_position: int
    rows: int
    repeated: bool
    copied_notes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TurnDraft:
    """Checked messages, and a digest that identifies a repetition of the same call.

    `copied` are the indexes of those with a tool call into which a note of ours was copied instead
    of the text that it replaces.
    """

    rows: list[Draft]
    digest: str
    copied: tuple[int, ...] = ()

    @property
    def tokens(self) -> int:
        """The estimated tokens of all rows."""
        return sum(draft.tokens for draft in self.rows)


def draft_turn(
    messages: Sequence[Mapping[str, Any]], origins: Origins | None, *, closes_turn: bool
) -> TurnDraft:
    """Check the messages of one call and estimate their tokens. Raises `MessageError`."""
    texts = check(messages)
    stated = _read_origins(origins, len(messages))
    rows = [_draft(message, stated.get(index)) for index, message in enumerate(messages)]
    whole = hashlib.sha256(b"closes" if closes_turn else b"open")
    for text, draft in zip(texts, rows, strict=True):
        whole.update(f"\n{draft.origin or ''}:".encode())
        whole.update(text.encode("utf-8", "surrogatepass"))
    copied = tuple(
        index
        for index, message in enumerate(messages)
        if rows[index].calls and any(holds_note(call.text) for call in calls_of(message))
    )
    return TurnDraft(rows, whole.hexdigest(), copied)


@dataclass(frozen=True, slots=True)
class TurnWrite:
    """The data that one call of a gateway stores."""

    event_id: str
    draft: TurnDraft
    usage: Usage | None
    closes_turn: bool


def store(
    connection: Connection,
    database: Database,
    key: int,
    write: TurnWrite,
    *,
    notified: bool,
    carrier: Mapping[str, str],
) -> tuple[Receipt, DueJob | None] | None:
    """Store the messages and enqueue the turn's job; return None without such a session.

    `carrier` is the trace context that the job continues. The driver's IntegrityError means that
    the event id was used before.
    """
    draft = write.draft
    record = sessions.count_appended(
        connection,
        database,
        key,
        rows=len(draft.rows),
        tokens=draft.tokens,
        closes_turn=write.closes_turn,
        reported=write.usage is not None,
    )
    if record is None:
        return None
    first = record.next_position - len(draft.rows)
    closed = record.turns if write.closes_turn else None
    events.record(
        connection,
        record.key,
        event_id=write.event_id,
        digest=draft.digest,
        turn=closed,
        first_position=first,
        rows=len(draft.rows),
        usage=write.usage.dump() if write.usage else None,
        view_tokens=_sent_tokens(record, draft) if write.usage else None,
        revision=record.revision,
        at=record.active_at,
    )
    if draft.rows:
        messages.append(
            connection, record.key, draft.rows, first_position=first, at=record.active_at
        )
    due = None
    # In the middle of a turn, the reported usage may already be too much.
    if write.closes_turn or write.usage is not None:
        due = jobs.enqueue(
            connection,
            database,
            record.key,
            kind=JobKind.TURN,
            queue=TURNS,
            trigger=TURN_TRIGGER,
            notified=notified,
            correlation={"event": write.event_id, **carrier},
        )
    copied = tuple(first + index for index in draft.copied)
    receipt = Receipt(
        record.id,
        write.event_id,
        closed,
        first,
        len(draft.rows),
        repeated=False,
        copied_notes=copied,
    )
    return receipt, due


def receipt_again(connection: Connection, record: SessionRecord, write: TurnWrite) -> Receipt:
    """Return the receipt of the call that stored this event first.

    Raises `EventConflict` when other messages were stored under its id, and `StorageError` without
    such an event, which means that another constraint was violated.
    """
    stored = events.find(connection, record.key, write.event_id)
    if stored is None:
        raise StorageError(
            f"session {record.id!r}: the turn contradicts what is stored; nothing was stored"
        )
    if stored.digest != write.draft.digest:
        raise EventConflict(record.id, write.event_id) from None
    return Receipt(
        record.id,
        write.event_id,
        stored.turn,
        stored.first_position,
        stored.rows,
        repeated=True,
        copied_notes=tuple(stored.first_position + index for index in write.draft.copied),
    )


def log_stored(owner: str, receipt: Receipt, due: DueJob | None) -> None:
    """Log what a gateway stored; `due` is the job that it enqueued."""
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
    """Estimate the tokens of the view in the last request before the rows of a call.

    It did not include the answer and the rows after it. Rows without an answer do not identify the
    request; without any rows, it is the last one.
    """
    behind = 0
    for row in reversed(draft.rows):
        behind += row.tokens
        if row.role == "assistant":
            return record.live_tokens - behind
    return None if draft.rows else record.live_tokens


def _draft(message: Mapping[str, Any], origin: Origin | None) -> Draft:
    facts = outline(message, origin)
    return Draft(
        message=message,
        tokens=estimate_message(message),
        role=facts.role,
        origin=facts.origin,
        opens_turn=facts.opens_turn,
        calls=facts.calls,
        answers=facts.answers,
    )


def _read_origins(origins: Origins | None, messages: int) -> dict[int, Origin]:
    if origins is None:
        return {}
    pairs = origins.items() if isinstance(origins, Mapping) else enumerate(origins)
    read: dict[int, Origin] = {}
    for index, origin in pairs:
        if origin is None:
            continue
        if not 0 <= index < messages:
            raise MessageError(index, "origin", f"there are only {messages} messages")
        try:
            read[index] = Origin(origin)
        except ValueError:
            known = ", ".join(o.value for o in Origin)
            raise MessageError(
                index, "origin", f"unknown origin {origin!r:.40}, must be one of {known}"
            ) from None
    return read


def _count(report: Mapping[str, Any], name: str) -> int | None:
    value = report.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise UsageError(f"usage.{name}: must be a whole number from 0 up, is {value!r:.40}")
    return value
