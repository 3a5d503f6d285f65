"""Storing of an imported session: all of it in one transaction, or nothing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import Connection

from producers.arguments import IdentifierError, check_identifiers
from producers.importing.placing import IMPORTED, Placed, append, lay_out, store_summary
from producers.importing.source import Account, Fate, SourceRow, SourceSession, State
from producers.session import clean_title, free_title
from producers.turn import draft_turn
from storage import audit
from storage.audit import AuditAction
from storage.conversations import events, imports, sessions
from storage.conversations.imports import Figures, ImportRecord
from storage.conversations.messages import Draft
from storage.conversations.sessions import SessionRecord
from storage.engine import Database
from storage.errors import AfterturnError
from workers.conversation.messages import MessageError


@dataclass(frozen=True, slots=True)
class Terms:
    """The options of an import.

    `source` and `model` take precedence over those of a session; `undated_ms` is the time of a
    session without one. With `skip_bad`, rows that cannot be stored are left out and reported;
    otherwise the first of them ends the import.
    """

    owner: str
    actor: str
    source: str | None = None
    model: str | None = None
    context_window: int | None = None
    undated_ms: int = 0
    skip_bad: bool = False


class Admitted(StrEnum):
    """The result for one session."""

    NEW = "new"
    GROWN = "grown"
    """Imported before, and rows were added at the source since."""
    UNCHANGED = "unchanged"
    CLASH = "clash"
    """A session with that id was not imported, or the source's rows have changed since."""


class BadRowError(AfterturnError, ValueError):
    """A row that cannot be stored and must not be skipped. Nothing of its session was stored."""

    def __init__(self, place: str, problem: str) -> None:
        super().__init__(f"{place}: {problem}")
        self.place = place
        self.problem = problem


Drafted = Sequence[tuple[SourceRow, Draft]]


@dataclass(frozen=True, slots=True)
class _Case:
    """A session and the transaction in which it is stored."""

    connection: Connection
    database: Database
    found: SourceSession
    terms: Terms
    account: Account


def admit(database: Database, found: SourceSession, terms: Terms, account: Account) -> Admitted:
    """Store `found`, or its new rows, and count every row in `account`. Raises `BadRowError`."""
    prompt, rows = _take_prompt(found)
    good, bad = _draft(found, rows, terms)
    try:
        check_identifiers(session_id=found.id, source=_source(found, terms))
    except IdentifierError as error:
        raise BadRowError(found.place, str(error)) from None
    with database.write() as connection:
        case = _Case(connection, database, found, terms, account)
        record = _create(connection, database, found, terms)
        if record is not None:
            _store_new(case, record, good)
            result = Admitted.NEW
            _store_prompt(connection, record.key, found, prompt, account)
        else:
            result = _store_more(case, good)
            if prompt is not None and prompt != found.system_prompt:
                account.count(Fate.REFUSED if result is Admitted.CLASH else Fate.KNOWN)
    account.read += len(found.rows) + len(found.summaries) + sum(found.left_out.values())
    for reason, many in found.left_out.items():
        account.count(Fate(reason), many)
    for place, problem in bad:
        account.name(place, problem)
    account.count(Fate.BAD, len(bad))
    account.sessions[result] += 1
    return result


def _take_prompt(found: SourceSession) -> tuple[str | None, Sequence[SourceRow]]:
    """Return the system prompt and the rows without it, since gateways send it themselves."""
    if found.system_prompt is None and found.rows:
        message = found.rows[0].message
        if isinstance(message, dict) and message.get("role") == "system":
            content = message.get("content")
            if isinstance(content, str) and content:
                return content, found.rows[1:]
    return found.system_prompt, found.rows


def _store_prompt(
    connection: Connection, key: int, found: SourceSession, prompt: str | None, account: Account
) -> None:
    if prompt is None:
        return
    sessions.keep_prompt(connection, key, prompt)
    if found.system_prompt is None:
        account.count(Fate.SYSTEM_PROMPT)


def _draft(
    found: SourceSession, rows: Sequence[SourceRow], terms: Terms
) -> tuple[list[tuple[SourceRow, Draft]], list[tuple[str, str]]]:
    good: list[tuple[SourceRow, Draft]] = []
    bad: list[tuple[str, str]] = []
    for row in rows:
        origins = None if row.origin is None else {0: row.origin}
        place = f"{found.place}, message {row.number}"
        try:
            draft = draft_turn([row.message], origins, closes_turn=True).rows[0]
        except MessageError as error:
            # Its text names a list of one message.
            problem = str(error).removeprefix("messages[0].")
            if not terms.skip_bad:
                raise BadRowError(place, problem) from None
            bad.append((place, problem))
        else:
            good.append((row, draft))
    return good, bad


def _create(
    connection: Connection, database: Database, found: SourceSession, terms: Terms
) -> SessionRecord | None:
    """Create the session; None where the id is taken.

    A chat in which another session is open stays with that one.
    """
    owner = terms.owner
    if sessions.find(connection, owner=owner, session_id=found.id) is not None:
        return None
    title = clean_title(found.title) if found.title else None
    if title is not None:
        title = free_title(
            title, lambda text: sessions.has_title(connection, owner=owner, title=text)
        )
    source = _source(found, terms)
    chat = found.chat_id
    if chat is not None and found.ended_at is None:
        taken = sessions.find_chat(
            connection, owner=owner, source=source, chat_id=chat, thread_id=found.thread_id
        )
        chat = None if taken is not None else chat
    values = {
        "owner": owner,
        "id": found.id,
        "source": source,
        # An ended session must not occupy its chat.
        "chat_id": chat if found.ended_at is None else None,
        "thread_id": found.thread_id if chat is not None and found.ended_at is None else "",
        "title": title,
        "model": terms.model or found.model or "",
        "context_window": terms.context_window,
    }
    return sessions.create(connection, database, values)


def _source(found: SourceSession, terms: Terms) -> str:
    return terms.source or found.source or "import"


def _store_new(case: _Case, record: SessionRecord, good: Drafted) -> None:
    found, account = case.found, case.account
    layout = lay_out(found, good)
    at = found.started_at or case.terms.undated_ms
    append(case.connection, record.key, layout.placed, at)
    marker = 0
    if found.summaries:
        marker = store_summary(case.connection, case.database, record.key, found, layout)
    live = layout.live
    figures = Figures(
        next_position=layout.next_position,
        turns=sum(one.draft.opens_turn for one in layout.placed),
        live_messages=len(live) + bool(found.summaries),
        live_tokens=sum(one.draft.tokens for one in live) + marker,
        started_at=at,
        active_at=max(at, found.active_at or case.terms.undated_ms),
        ended_at=found.ended_at,
    )
    imports.set_figures(case.connection, record.key, figures)
    _finish(case, record.key, layout.placed, [row for row, _ in good])
    archived = sum(row.state is State.ARCHIVED for row, _ in good)
    account.count(Fate.SUMMARY, len(found.summaries))
    account.count(Fate.LIVE, len(good) - archived)
    account.count(Fate.ARCHIVED if layout.covered else Fate.UNARCHIVED, archived)
    account.tokens += figures.live_tokens


def _store_more(case: _Case, good: Drafted) -> Admitted:
    connection, found, account = case.connection, case.found, case.account
    known = sessions.find(connection, owner=case.terms.owner, session_id=found.id)
    record = None
    if known is not None:
        known = sessions.lock(connection, known.key)
        record = imports.find(connection, known.key)
    rows = [row for row, _ in good]
    if known is None or record is None or digest(rows[: record.rows]) != record.digest:
        why = (
            "a session of that id is here already, which was not imported"
            if record is None
            else "its rows are others than those that were imported; it stays as it was"
        )
        account.name(found.place, why)
        account.count(Fate.REFUSED, len(good) + len(found.summaries))
        return Admitted.CLASH
    account.count(Fate.KNOWN, record.rows + len(found.summaries))
    new = good[record.rows :]
    if not new:
        return Admitted.UNCHANGED
    first = known.next_position
    placed = [Placed(row, draft, first + place) for place, (row, draft) in enumerate(new)]
    at = found.active_at or case.terms.undated_ms or known.active_at
    append(connection, known.key, placed, at)
    tokens = sum(one.draft.tokens for one in placed)
    figures = Figures(
        next_position=first + len(placed),
        turns=known.turns + sum(one.draft.opens_turn for one in placed),
        live_messages=known.live_messages + len(placed),
        live_tokens=known.live_tokens + tokens,
        started_at=known.started_at,
        active_at=max(known.active_at, at),
        ended_at=found.ended_at,
    )
    imports.set_figures(connection, known.key, figures)
    _finish(case, known.key, placed, rows)
    archived = sum(row.state is State.ARCHIVED for row, _ in new)
    account.count(Fate.LIVE, len(new) - archived)
    account.count(Fate.UNARCHIVED, archived)
    account.tokens += tokens
    return Admitted.GROWN


def _finish(case: _Case, key: int, placed: Sequence[Placed], rows: Sequence[SourceRow]) -> None:
    """Record the event, how far the source was read, and the actor. `rows` are all stored rows."""
    connection, found = case.connection, case.found
    state = digest(rows)
    now = sessions.fetch(connection, key)
    events.record(
        connection,
        key,
        event_id=f"{IMPORTED}:{len(rows)}:{state[:32]}",
        digest=state,
        turn=now.turns or None,
        first_position=placed[0].position if placed else 0,
        rows=len(placed),
        usage=None,
        view_tokens=None,
        revision=now.revision,
        at=now.active_at,
    )
    last = rows[-1].number if rows else 0
    imports.note(connection, case.database, ImportRecord(key, found.place, len(rows), last, state))
    audit.record(
        connection,
        case.database,
        AuditAction.IMPORTED,
        actor=case.terms.actor,
        owner=case.terms.owner,
        session=found.id,
        facts={"rows": len(placed), "of": len(rows), "summaries": len(found.summaries)},
    )


def digest(rows: Sequence[SourceRow]) -> str:
    """Return a hash of the rows in order, without their flags, which change at the source."""
    whole = hashlib.sha256()
    for row in rows:
        whole.update(json.dumps(row.message, separators=(",", ":")).encode())
        whole.update(b"\n")
    return whole.hexdigest()
