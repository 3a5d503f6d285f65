"""The operations behind `Gateway`, with its arguments, on an open database."""

from __future__ import annotations

import json
import os
import socket
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from producers import late, notify, preflight, reading, requests, turn, undoing
from producers.arguments import (
    check_estimate,
    check_identifiers,
    check_seconds,
    check_whole,
    check_window,
)
from producers.notify import Notifier
from producers.passes import Passes
from producers.reading import Context, Output
from producers.results import Compaction
from producers.session import (
    Session,
    SessionRequest,
    check_managed_by,
    get_or_create,
    session_of,
)
from producers.turn import Origins, Receipt, TurnWrite, Usage
from producers.waiting import Deadline
from storage import signals
from storage.conversations import sessions
from storage.conversations.messages import Amount
from storage.conversations.sessions import SessionRecord
from storage.conversations.undo import Rewound, Undone
from storage.engine import Database
from storage.errors import SessionClash, SessionNotFound
from storage.signals import Signal
from workers.rendering import Dialect
from workers.settings import Settings, SettingsSource
from workers.telemetry import tracing

MAX_SIGNALS = 10_000
MAX_SIGNAL_ID = 2**63 - 1


class Operations:
    """The operations of a gateway for one owner. Safe to use from many threads."""

    def __init__(
        self,
        settings: Settings | None,
        *,
        owner: str,
        database: Database | None,
        actor: str | None,
    ) -> None:
        check_identifiers(owner=owner, actor=actor)
        source = SettingsSource.fixed(settings) if settings else SettingsSource.following()
        now = source.current()
        self._owner = owner
        self._actor = actor or f"gateway {socket.gethostname()}:{os.getpid()}"
        self.database = database or late.open_database(now.database_url)
        self._opened_database = database is None
        self._broker_url = now.broker_url
        self._notifier = Notifier(now.broker_url) if now.broker_url else None
        self._passes = Passes(self.database, source, self._notifier)

    def close(self) -> None:
        """Publish waiting notifications for at most a second and close the connections."""
        if self._notifier is not None:
            self._notifier.close()
        if self._opened_database:
            self.database.close()

    # Sessions

    def open_session(
        self,
        session_id: str | None,
        *,
        source: str,
        chat_id: str | None,
        thread_id: str | None,
        owner: str | None,
        title: str | None,
        model: str | None,
        model_config: Mapping[str, Any] | None,
        context_window: int | None,
        reserved_output: int | None,
        system_prompt: str | None,
        managed_by: str | None,
    ) -> Session:
        """Get a session or create it."""
        check_identifiers(
            session_id=session_id, source=source, chat_id=chat_id, thread_id=thread_id, owner=owner
        )
        check_window(context_window=context_window, reserved_output=reserved_output)
        wanted = SessionRequest(
            owner=self._owner if owner is None else owner,
            session_id=session_id,
            source=source,
            chat_id=chat_id,
            thread_id=thread_id or "",
            title=title,
            model=model,
            model_config=json.dumps(model_config) if model_config else None,
            context_window=context_window,
            reserved_output=reserved_output,
            managed_by=check_managed_by(managed_by),
        )
        with _clashes_named(session_id), self.database.write() as connection:
            record = get_or_create(connection, self.database, wanted)
            if system_prompt is not None:
                sessions.keep_prompt(connection, record.key, system_prompt)
            prompt = sessions.read_prompt(connection, record.key)
            return session_of(record, prompt, self._passes.settings)

    def close_session(self, session: Session | str) -> None:
        """Mark a session as ended."""
        with self._locked(session) as (connection, record):
            sessions.close(connection, self.database, record.key)

    def set_model(
        self,
        session: Session | str,
        model: str,
        *,
        context_window: int | None,
        reserved_output: int,
        model_config: Mapping[str, Any] | None,
    ) -> None:
        """Change the session's model and window."""
        check_window(context_window=context_window, reserved_output=reserved_output)
        with self._locked(session) as (connection, record):
            sessions.set_model(
                connection,
                record.key,
                model=model,
                model_config=json.dumps(model_config) if model_config else None,
                context_window=context_window,
                reserved_output=reserved_output,
            )

    # Turns

    def store(
        self,
        session: Session | str,
        messages: Sequence[Mapping[str, Any]],
        *,
        usage: Usage | Mapping[str, Any] | None,
        event_id: str | None,
        origins: Origins | None,
        closes_turn: bool,
    ) -> Receipt:
        """Store messages of a turn, once per event id, and notify workers of the job."""
        report = Usage.of(usage)
        check_identifiers(event_id=event_id)
        draft = turn.draft_turn(messages, origins, closes_turn=closes_turn)
        write = TurnWrite(event_id or uuid.uuid4().hex, draft, report, closes_turn)
        with tracing.span("store", session=_id(session), event_id=write.event_id) as span:
            return self._store(session, write, span.carrier)

    def _store(
        self, session: Session | str, write: TurnWrite, carrier: Mapping[str, str]
    ) -> Receipt:
        notifier = self._notifier
        try:
            with self.database.write() as connection:
                key = self._key(connection, session)
                notified = notifier is not None
                stored = turn.store(
                    connection, self.database, key, write, notified=notified, carrier=carrier
                )
        except IntegrityError:
            with self.database.read() as connection:
                record = self._record(connection, session)
                receipt = turn.receipt_again(connection, record, write)
            turn.log_stored(record.owner, receipt, None)
            return receipt
        if stored is None:
            raise SessionNotFound(_id(session), self._owner)
        receipt, due = stored
        if due is not None and notifier is not None:
            notifier.notify(due)
        owner = session.owner if isinstance(session, Session) else self._owner
        turn.log_stored(owner, receipt, due)
        return receipt

    # Context

    def load_context(self, session: Session | str, dialect: Dialect | str) -> Context:
        """Render the live view of a session."""
        wanted = Dialect(dialect)
        with self.database.read() as connection:
            return reading.load_context(connection, self._record(connection, session), wanted)

    def fetch_output(self, handle: str) -> Output:
        """Return the message that a note replaces."""
        with self.database.read() as connection:
            return reading.fetch_output(connection, owner=self._owner, handle=handle)

    def search(self, query: str | None, options: dict[str, Any]) -> dict[str, Any]:
        """Search the owner's sessions."""
        return late.search(self.database, self._owner, query, options)

    # Requests for a pass

    def preflight(self, session: Session | str, *, tokens: object, wait: float) -> Compaction:
        """Check whether the next request may be sent."""
        estimate = check_estimate(tokens)
        return preflight.check_request(
            self._passes, self._key_of(session), estimate, _deadline(wait)
        )

    def hygiene(self, session: Session | str, *, wait: float) -> Compaction:
        """Request a pass over a session that is far too large."""
        return requests.request_hygiene(self._passes, self._key_of(session), _deadline(wait))

    def report_error(self, session: Session | str, error: object, *, wait: float) -> Compaction:
        """Request a pass after a provider's error, where one helps."""
        return requests.answer_error(self._passes, self._key_of(session), error, _deadline(wait))

    def compact(self, session: Session | str, *, wait: float, **options: object) -> Compaction:
        """Request a pass for a person."""
        key, deadline = self._key_of(session), _deadline(wait)
        return requests.request_for_person(
            self._passes,
            key,
            deadline,
            focus=options["focus"],
            keep_last=options["keep_last"],
            around=options["around"],
            up_to=options["up_to"],
            actor=self._actor,
        )

    def request_compaction(self, session: Session | str, *, wait: float) -> Compaction:
        """Request a pass for a plugin."""
        return requests.request_for_plugin(self._passes, self._key_of(session), _deadline(wait))

    # Signals

    def signals(
        self, session: Session | str | None, *, after: int, quiet: bool, limit: int
    ) -> list[Signal]:
        """Return signals of the owner, or of one session."""
        check_whole("after", after, most=MAX_SIGNAL_ID)
        check_whole("limit", limit, least=1, most=MAX_SIGNALS)
        with self.database.read() as connection:
            record = None if session is None else self._record(connection, session)
            return signals.read(
                connection,
                owner=self._owner if record is None else record.owner,
                key=None if record is None else record.key,
                after=after,
                quiet=quiet,
                limit=limit,
            )

    def listen(
        self, *, after: int | None, quiet: bool, poll_seconds: float, stop: Callable[[], bool]
    ) -> Iterator[Signal]:
        """Yield the owner's signals as they are stored."""
        seconds = check_seconds("poll_seconds", poll_seconds)
        if after is None:
            with self.database.read() as connection:
                after = signals.newest(connection, owner=self._owner)
        return notify.listen(
            self.database,
            owner=self._owner,
            broker_url=self._broker_url,
            after=check_whole("after", after, most=MAX_SIGNAL_ID),
            quiet=quiet,
            poll_seconds=seconds,
            stop=stop,
        )

    # Undoing

    def rewind(self, session: Session | str, *, turns: int, to_position: int | None) -> Rewound:
        """Take back turns."""
        with self._locked(session) as (connection, record):
            return undoing.rewind(
                connection,
                self.database,
                record,
                turns=turns,
                to_position=to_position,
                actor=self._actor,
            )

    def undo(self, session: Session | str) -> Undone | None:
        """Take back the newest compaction."""
        with self._locked(session) as (connection, record):
            return undoing.undo_newest(connection, self.database, record, actor=self._actor)

    def unprune(self, session: Session | str) -> Amount:
        """Show old tool output in full again."""
        settings = self._passes.settings
        with self._locked(session) as (connection, record):
            return undoing.unprune(connection, self.database, record, settings, actor=self._actor)

    # Lookup of sessions

    def _key_of(self, session: Session | str) -> int:
        if isinstance(session, Session):
            return session.key
        with self.database.read() as connection:
            return self._find(connection, session)

    def _key(self, connection: Connection, session: Session | str) -> int:
        return session.key if isinstance(session, Session) else self._find(connection, session)

    def _find(self, connection: Connection, session_id: str) -> int:
        found = sessions.find(connection, owner=self._owner, session_id=session_id)
        if found is None:
            raise SessionNotFound(session_id, self._owner)
        return found.key

    def _record(self, connection: Connection, session: Session | str) -> SessionRecord:
        return sessions.fetch(connection, self._key(connection, session))

    @contextmanager
    def _locked(self, session: Session | str) -> Iterator[tuple[Connection, SessionRecord]]:
        with self.database.write() as connection:
            yield connection, sessions.lock(connection, self._key(connection, session))


@contextmanager
def _clashes_named(session_id: str | None) -> Iterator[None]:
    try:
        yield
    except IntegrityError as error:
        raise SessionClash(
            f"session {session_id!r} cannot be opened: its chat or title belongs to a newer "
            "session of the same owner; close that one first"
        ) from error


def _deadline(wait: float) -> Deadline:
    return Deadline(check_seconds("wait", wait))


def _id(session: Session | str) -> str:
    return session.id if isinstance(session, Session) else session
