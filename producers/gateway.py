"""The class that a gateway uses."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from producers.context import Context
from producers.doorbell import Doorbell
from producers.drafts import Origins, draft_turn
from producers.identifiers import check_identifiers
from producers.opening import Wanted, get_or_create
from producers.session import Session
from producers.usage import Usage
from producers.windows import check_window
from storage import events, jobs, messages, migrate, sessions, undo
from storage.engine import Database
from storage.errors import EventConflict, SessionClash, SessionNotFound, StorageError
from storage.jobs import JobKind
from storage.sessions import SessionRecord
from storage.undo import Rewound, Undone
from tasks.names import TURNS
from workers.rendering import Dialect, render
from workers.settings import Settings
from workers.settings_file import load_settings

TURN_TRIGGER = "turn"


class RewindError(StorageError):
    """The session has no such turn to go back to. Nothing was changed."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What was stored. `repeated` says that an earlier call with this event id had stored it.

    `turn` is the number of the turn that was closed, None while it stays open. The rows are the
    `rows` ones from `first_position` on.
    """

    session_id: str
    event_id: str
    turn: int | None
    first_position: int
    rows: int
    repeated: bool


class Gateway:
    """A gateway's door to the shared database and the queue.

    Safe to use from many threads; a forked process makes its own.

    `settings` default to the configuration file and the environment. `owner` is whose sessions
    are meant where a call does not name one; a session given by its id is looked up with that
    owner, so two owners may use the same ids and titles and never meet.

    Every method raises `DatabaseUnavailable` when the database fails; then nothing was stored
    and the same call may be repeated. Give turns an `event_id` for that: where the connection
    breaks in the middle of a commit, nobody can tell whether it was made.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        owner: str = "local",
        database: Database | None = None,
    ) -> None:
        settings = settings or load_settings()
        check_identifiers(owner=owner)
        self._owner = owner
        self._database = database or migrate.open_ready(settings.database_url)
        self._opened_database = database is None
        self._doorbell = Doorbell(settings.broker_url) if settings.broker_url else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ring what is waiting for at most a second and close the connections."""
        if self._doorbell is not None:
            self._doorbell.close()
        if self._opened_database:
            self._database.close()

    def open_session(
        self,
        session_id: str | None = None,
        *,
        source: str = "cli",
        chat_id: str | None = None,
        thread_id: str | None = None,
        owner: str | None = None,
        title: str | None = None,
        model: str | None = None,
        model_config: Mapping[str, Any] | None = None,
        context_window: int | None = None,
        reserved_output: int | None = None,
        system_prompt: str | None = None,
    ) -> Session:
        """Get a session or create it: by its id, else by source, chat and thread, else a new one.

        `context_window` is the model's window in tokens (128,000 is assumed where it is not
        known), `reserved_output` what of it is kept for answers. Model and window of an existing
        session are changed to what is given here. `system_prompt` is kept from the first time on.
        A title that the owner uses already gets a number. Raises `SessionClash` when the session
        cannot be created or reopened because its chat has another one open, `IdentifierError` for
        a name that is empty or longer than 512 bytes, and `WindowError` for a window or reserve
        that is no number of tokens or leaves no room.
        """
        check_identifiers(
            session_id=session_id, source=source, chat_id=chat_id, thread_id=thread_id, owner=owner
        )
        check_window(context_window=context_window, reserved_output=reserved_output)
        wanted = Wanted(
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
        )
        with self._clashes_named(session_id), self._database.write() as connection:
            record = get_or_create(connection, self._database, wanted)
            if system_prompt is not None:
                sessions.keep_prompt(connection, record.key, system_prompt)
            return _session(record, sessions.read_prompt(connection, record.key))

    def close_session(self, session: Session | str) -> None:
        """Mark a session as ended. Its chat's next message opens a new one; it can be reopened
        by its id."""
        with self._locked(session) as (connection, record):
            sessions.close(connection, self._database, record.key)

    def set_model(
        self,
        session: Session | str,
        model: str,
        *,
        context_window: int | None = None,
        reserved_output: int = 0,
        model_config: Mapping[str, Any] | None = None,
    ) -> None:
        """Change the session's model and window; what was learned of the old one is dropped.

        Raises `WindowError` as `open_session` does.
        """
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

    def finalize_turn(
        self,
        session: Session | str,
        messages: Sequence[Mapping[str, Any]],
        *,
        usage: Usage | Mapping[str, Any] | None = None,
        event_id: str | None = None,
        origins: Origins | None = None,
    ) -> Receipt:
        """Store the rest of a turn and close it: messages, event and due job in one transaction.

        Idempotent on `event_id`: the same call again changes nothing and says so; the same id
        with other messages raises `EventConflict`. `messages` are OpenAI chat dicts and come
        back byte for byte; they may be empty when `append` stored all. Raises `MessageError` for
        a message that cannot be stored, and then nothing of the turn is. The broker never keeps
        the caller waiting and its failures never reach it.
        """
        return self._store(session, messages, usage, event_id, origins, closes_turn=True)

    def append(
        self,
        session: Session | str,
        messages: Sequence[Mapping[str, Any]],
        *,
        turn_open: bool = True,
        usage: Usage | Mapping[str, Any] | None = None,
        event_id: str | None = None,
        origins: Origins | None = None,
    ) -> Receipt:
        """Store rows in the middle of a turn. Errors and `event_id` as in `finalize_turn`.

        Compaction leaves an open turn alone. With `turn_open=False` this is `finalize_turn`.
        """
        return self._store(session, messages, usage, event_id, origins, closes_turn=not turn_open)

    def load_context(self, session: Session | str, *, dialect: Dialect | str = "openai") -> Context:
        """The live view, rendered for a provider: `openai`, `anthropic` or `strict`.

        The system prompt of `open_session` is not in it; put it in front.
        """
        wanted = Dialect(dialect)
        with self._database.read() as connection:
            record = self._record(connection, session)
            rows = messages.read_view(connection, record.key)
        view = render(rows, wanted)
        return Context(
            dialect=wanted,
            messages=view.messages,
            system=view.system,
            tokens=record.live_tokens,
            revision=record.revision,
            omitted=view.omitted,
        )

    def rewind(
        self, session: Session | str, *, turns: int = 1, to_position: int | None = None
    ) -> Rewound:
        """Take back the last `turns` turns, or everything from the turn at `to_position` on.

        Compactions that reach past the cut are undone, so that the view before it is whole. The
        rows stay stored but are neither shown nor found any more. Raises `RewindError` when the
        session has no such turn.
        """
        with self._locked(session) as (connection, record):
            if to_position is not None:
                if not messages.starts_turn(connection, record.key, to_position):
                    raise RewindError(
                        f"session {record.id!r}: no turn starts at position {to_position}"
                    )
                cut = to_position
            else:
                starts = messages.turn_starts(connection, record.key, newest=max(turns, 1))
                if turns < 1 or len(starts) < turns:
                    raise RewindError(
                        f"session {record.id!r}: {turns} turns cannot be taken back, "
                        f"it has {len(starts)}"
                    )
                cut = starts[-1]
            return undo.rewind_to(connection, record.key, cut)

    def undo(self, session: Session | str) -> Undone | None:
        """Take back the session's last compaction; None when there is none.

        Last in, first out. Automatic passes of the session then wait for its next turn.
        """
        with self._locked(session) as (connection, record):
            return undo.undo_newest(connection, self._database, record.key)

    def _store(
        self,
        session: Session | str,
        turn: Sequence[Mapping[str, Any]],
        usage: Usage | Mapping[str, Any] | None,
        event_id: str | None,
        origins: Origins | None,
        *,
        closes_turn: bool,
    ) -> Receipt:
        report = Usage.of(usage)
        check_identifiers(event_id=event_id)
        draft = draft_turn(turn, origins, closes_turn=closes_turn)
        event_id = event_id or uuid.uuid4().hex
        try:
            with self._database.write() as connection:
                record = sessions.count_appended(
                    connection,
                    self._database,
                    self._key(connection, session),
                    rows=len(draft.rows),
                    tokens=draft.tokens,
                    closes_turn=closes_turn,
                )
                if record is None:
                    raise SessionNotFound(_id(session), self._owner)
                first = record.next_position - len(draft.rows)
                closed = record.turns if closes_turn else None
                events.record(
                    connection,
                    record.key,
                    event_id=event_id,
                    digest=draft.digest,
                    turn=closed,
                    first_position=first,
                    rows=len(draft.rows),
                    usage=report.dump() if report else None,
                    revision=record.revision,
                    at=record.active_at,
                )
                if draft.rows:
                    messages.append(
                        connection,
                        record.key,
                        draft.rows,
                        first_position=first,
                        at=record.active_at,
                    )
                due = None
                if closes_turn:
                    due = jobs.make_due(
                        connection,
                        self._database,
                        record.key,
                        kind=JobKind.TURN,
                        queue=TURNS,
                        trigger=TURN_TRIGGER,
                        ringing=self._doorbell is not None,
                    )
        except IntegrityError as error:
            return self._repeated(session, event_id, draft.digest, error)
        if due is not None and self._doorbell is not None:
            self._doorbell.ring(due)
        return Receipt(record.id, event_id, closed, first, len(draft.rows), repeated=False)

    def _repeated(
        self, session: Session | str, event_id: str, digest: str, error: IntegrityError
    ) -> Receipt:
        with self._database.read() as connection:
            record = self._record(connection, session)
            stored = events.find(connection, record.key, event_id)
        if stored is None:
            raise StorageError(
                f"session {record.id!r}: the turn contradicts what is stored; nothing was stored"
            ) from error
        if stored.digest != digest:
            raise EventConflict(record.id, event_id) from None
        return Receipt(
            record.id, event_id, stored.turn, stored.first_position, stored.rows, repeated=True
        )

    def _key(self, connection: Connection, session: Session | str) -> int:
        return session.key if isinstance(session, Session) else self._look_up(connection, session)

    def _look_up(self, connection: Connection, session_id: str) -> int:
        found = sessions.find(connection, owner=self._owner, session_id=session_id)
        if found is None:
            raise SessionNotFound(session_id, self._owner)
        return found.key

    def _record(self, connection: Connection, session: Session | str) -> SessionRecord:
        return sessions.fetch(connection, self._key(connection, session))

    @contextmanager
    def _locked(self, session: Session | str) -> Iterator[tuple[Connection, SessionRecord]]:
        with self._database.write() as connection:
            yield connection, sessions.lock(connection, self._key(connection, session))

    @contextmanager
    def _clashes_named(self, session_id: str | None) -> Iterator[None]:
        try:
            yield
        except IntegrityError as error:
            raise SessionClash(
                f"session {session_id!r} cannot be opened: its chat or title belongs to a newer "
                "session of the same owner; close that one first"
            ) from error


def _session(record: SessionRecord, system_prompt: str | None) -> Session:
    return Session(
        key=record.key,
        owner=record.owner,
        id=record.id,
        source=record.source,
        chat_id=record.chat_id,
        thread_id=record.thread_id or None,
        title=record.title,
        model=record.model,
        context_window=record.context_window,
        reserved_output=record.reserved_output,
        system_prompt=system_prompt,
    )


def _id(session: Session | str) -> str:
    return session.id if isinstance(session, Session) else session
