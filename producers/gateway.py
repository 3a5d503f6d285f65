"""The class that a gateway uses."""

from __future__ import annotations

import json
import os
import socket
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from types import TracebackType
from typing import Any, Self

from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from producers import api_failure, listening, outputs, preflight, requests
from producers.api_failure import ErrorVerdict
from producers.arguments import check_seconds, check_tokens, check_whole
from producers.compaction import Compaction
from producers.context import Context
from producers.doorbell import Doorbell
from producers.drafts import Origins, draft_turn
from producers.identifiers import check_identifiers
from producers.opening import Wanted, check_managed_by, get_or_create
from producers.outputs import Output
from producers.passes import Passes
from producers.preflight import Preflight
from producers.recall import Recall, answer
from producers.receipt import Receipt
from producers.rewinding import find_cut
from producers.session import Session, session_of
from producers.storing import Told, receipt_again, store, tell_stored
from producers.usage import Usage
from producers.waiting import Patience
from producers.windows import check_window
from storage import audit, messages, migrate, sessions, signals, undo
from storage.audit import AuditAction
from storage.engine import Database
from storage.errors import SessionClash, SessionNotFound
from storage.messages import Amount
from storage.sessions import SessionRecord
from storage.signals import Signal
from storage.undo import Rewound, Undone
from workers.batch.heal_due import see_to_placeholder
from workers.pruning.undoing import unprune
from workers.rendering import Dialect, render
from workers.settings import Settings
from workers.settings_file import SettingsSource
from workers.telemetry import tracing

MOST_SIGNALS = 10_000
MOST_SIGNAL_ID = 2**63 - 1


class Gateway:
    """A gateway's door to the shared database and the queue.

    Safe to use from many threads; a forked process makes its own.

    `settings` default to the configuration file and the environment; block `compression` then
    follows the file. `owner` is whose sessions
    are meant where a call does not name one; a session given by its id is looked up with that
    owner, so two owners may use the same ids and titles and never meet. `actor` is who the audit
    trail names for what is done through it, by default this process.

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
        actor: str | None = None,
    ) -> None:
        check_identifiers(owner=owner, actor=actor)
        source = SettingsSource.fixed(settings) if settings else SettingsSource.following()
        now = source.current()
        self._owner = owner
        self._actor = actor or f"gateway {socket.gethostname()}:{os.getpid()}"
        self._database = database or migrate.open_ready(now.database_url)
        self._opened_database = database is None
        self._broker_url = now.broker_url
        self._doorbell = Doorbell(now.broker_url) if now.broker_url else None
        self._passes = Passes(self._database, source, self._doorbell)

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
        managed_by: str | None = None,
    ) -> Session:
        """Get a session or create it: by its id, else by source, chat and thread, else a new one.

        `context_window` is the model's window in tokens (128,000 is assumed where it is not
        known), `reserved_output` what of it is kept for answers. Model and window of an existing
        session are changed to what is given here. `system_prompt` is kept from the first time on.
        `managed_by` is who else compacts the conversation: `codex` for a thread that a Codex app
        server owns, `openai` for compaction on OpenAI's side, `nobody` to end either.
        A title that the owner uses already gets a number. Raises `SessionClash` when the session
        cannot be created or reopened because its chat has another one open, `IdentifierError` for
        a name that is empty or longer than 512 bytes, `WindowError` for a window or reserve that
        is no number of tokens or leaves no room, and `RequestError` for a `managed_by` that is
        not known.
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
            managed_by=check_managed_by(managed_by),
        )
        with self._clashes_named(session_id), self._database.write() as connection:
            record = get_or_create(connection, self._database, wanted)
            if system_prompt is not None:
                sessions.keep_prompt(connection, record.key, system_prompt)
            prompt = sessions.read_prompt(connection, record.key)
            return session_of(record, prompt, self._passes.settings)

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

        Compaction leaves an open turn alone, but for its closed tool groups when `usage` tells
        that the threshold is reached. With `turn_open=False` this is `finalize_turn`.
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

    def preflight(
        self, session: Session | str, *, tokens: int | None = None, wait: float = 0.0
    ) -> Preflight:
        """Ask before a request whether to send it or to compact first.

        `tokens` is the gateway's estimate of the whole request; without it ours of the stored
        view counts, calibrated by reported usage. At the threshold or above, or at
        `hygiene_hard_message_limit` live messages, a batch pass is made due, unless a guard holds
        it back; with `wait` seconds this waits for it and goes on while passes make progress, at
        most `max_attempts` in one turn. Without a worker the answer after that time is a pending
        one, no error. Raises `CompressionStuck` after a pass, waited for, that left nearly all of
        a session that is over its threshold still, and `RequestError` for arguments that cannot
        be meant.
        """
        tokens = check_tokens(tokens)
        return preflight.look(self._passes, self._key_of(session), tokens, _patience(wait))

    def hygiene(self, session: Session | str, *, wait: float = 0.0) -> Compaction:
        """Have a session compacted that has become far too large, before a user's turn.

        That is one at 85 % of its window, or at its threshold where that is higher, by our
        estimate, or one of `hygiene_hard_message_limit` live messages: the latter works with
        every model and the network down. `wait` and errors as in `preflight`; one pass a call.
        """
        return requests.hygiene(self._passes, self._key_of(session), _patience(wait))

    def report_error(
        self, session: Session | str, error: object, *, wait: float = 0.0
    ) -> ErrorVerdict:
        """Tell of an error of the model's provider; learn whether to send the request again.

        `error` is the exception as the provider's client raised it, a mapping with `status`,
        `code` and `message`, or a text. Payloads, contexts and outputs that are too large and
        limits on long contexts make a pass due that no guard holds back, only
        `compression.enabled`; every other error makes nothing due. A window that the provider
        tells of is kept. `wait` as in `preflight`; raises `CompressionStuck` after a pass, waited
        for, that left nearly all of a session that does not fit its window still.
        """
        return api_failure.judge(self._passes, self._key_of(session), error, _patience(wait))

    def compact(
        self,
        session: Session | str,
        *,
        focus: str | None = None,
        keep_last: int | None = None,
        around: int | None = None,
        up_to: int | None = None,
        wait: float = 0.0,
    ) -> Compaction:
        """Have a session compacted because a person asks: whatever its size, past every guard.

        `focus` is a topic that gets most of the summary. At most one of these says which part:
        `keep_last` leaves the newest turns as they are, `up_to` ends at a message's position,
        `around` takes the turns near one. It also ends cooldown and anti-thrash. While an earlier
        such request waits, that one's wishes count. `wait` as in `preflight`; raises
        `RequestError`, and `CompressionStuck` after a pass over everything, waited for, that left
        90 % or more.
        """
        return requests.person_request(
            self._passes,
            self._key_of(session),
            _patience(wait),
            focus=focus,
            keep_last=keep_last,
            around=around,
            up_to=up_to,
            actor=self._actor,
        )

    def request_compaction(self, session: Session | str, *, wait: float = 0.0) -> Compaction:
        """Have a session compacted because a plugin asks, below the threshold too.

        Once a turn; guards hold it back. `wait` as in `preflight`; raises `CompressionStuck`
        after a pass, waited for, that left 90 % or more.
        """
        return requests.engine_request(self._passes, self._key_of(session), _patience(wait))

    def signals(
        self,
        session: Session | str | None = None,
        *,
        after: int = 0,
        quiet: bool = False,
        limit: int = 100,
    ) -> list[Signal]:
        """What happened to the owner's sessions, or to one: signals with an id above `after`.

        Oldest first, at most `limit`; pass the last one's id on. `quiet` ones are told only where
        asked for: progress that users need not see.
        """
        check_whole("after", after, most=MOST_SIGNAL_ID)
        check_whole("limit", limit, least=1, most=MOST_SIGNALS)
        with self._database.read() as connection:
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
        self,
        *,
        after: int | None = None,
        quiet: bool = False,
        poll_seconds: float = 1.0,
        stop: Callable[[], bool] | None = None,
    ) -> Iterator[Signal]:
        """The owner's signals as they come: each once, in order of their ids, without end.

        From those after id `after` on, by default from now. Over a Redis broker they arrive at
        once, else within `poll_seconds`. `stop` is asked several times a second. Raises
        `DatabaseUnavailable` when the database fails: go on with the last id as `after`.
        """
        seconds = check_seconds("poll_seconds", poll_seconds)
        if after is None:
            with self._database.read() as connection:
                after = signals.newest(connection, owner=self._owner)
        return listening.listen(
            self._database,
            owner=self._owner,
            broker_url=self._broker_url,
            after=check_whole("after", after, most=MOST_SIGNAL_ID),
            quiet=quiet,
            poll_seconds=seconds,
            stop=stop or (lambda: False),
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
            cut = find_cut(connection, record, turns=turns, to_position=to_position)
            rewound = undo.rewind_to(connection, record.key, cut)
            self._note(connection, record, AuditAction.REWOUND, asdict(rewound))
            see_to_placeholder(connection, self._database, record.key)
            return rewound

    def undo(self, session: Session | str) -> Undone | None:
        """Take back the session's last compaction; None when there is none.

        Last in, first out. Automatic passes of the session then wait for its next turn.
        """
        with self._locked(session) as (connection, record):
            undone = undo.undo_newest(connection, self._database, record.key)
            if undone is not None:
                self._note(connection, record, AuditAction.UNDONE, asdict(undone))
            see_to_placeholder(connection, self._database, record.key)
            return undone

    def fetch_output(self, handle: str) -> Output:
        """What a note in the context stands for: the message as it was stored, by the handle at
        the note's end.

        Give a model a tool that calls this, so that it can read old tool output again. Only
        messages of the gateway's owner are found. Raises `HandleError` for what is no handle, and
        `OutputNotFound`.
        """
        with self._database.read() as connection:
            return outputs.fetch(connection, owner=self._owner, handle=handle)

    def unprune(self, session: Session | str) -> Amount:
        """Show old tool output of a session in full again; gives the messages of the view that
        were shown short, and the tokens that came back.

        Automatic passes then wait for the session's next turn.
        """
        with self._locked(session) as (connection, record):
            back = unprune(connection, self._database, record, self._passes.settings)
            if back.messages:
                self._note(connection, record, AuditAction.UNPRUNED, asdict(back))
            return back

    def _note(
        self,
        connection: Connection,
        record: SessionRecord,
        action: AuditAction,
        facts: Mapping[str, Any],
    ) -> None:
        audit.record(
            connection,
            self._database,
            action,
            actor=self._actor,
            owner=record.owner,
            session=record.id,
            facts=facts,
        )

    def search(self, query: str | None = None, **asked: Any) -> dict[str, Any]:
        """Search what was ever said in the owner's sessions, live and archived: no model is asked.

        In the shape of the agent tool `session_search` (`SESSION_SEARCH_TOOL`), and so is what it
        gives, as values for JSON of a bounded size: with `query` the messages that answer it, best
        first; with `session_id` and `around_message_id` a piece of that session; with none of them
        the last sessions. The other arguments are those of `producers.Recall`, such as `limit`,
        `page`, `roles`, `source`, `since` and `until`. Raises `RequestError` for arguments that
        cannot be meant, never for a query, and `SessionNotFound` and `SearchMarkError` for a place
        or a page that there is not.
        """
        return answer(self._database, self._owner, Recall.of(query=query, **asked))

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
        told = Told(event_id or uuid.uuid4().hex, draft, report, closes_turn)
        with tracing.span("store", session=_id(session), event_id=told.event_id) as span:
            return self._store_told(session, told, span.carrier)

    def _store_told(
        self, session: Session | str, told: Told, carrier: Mapping[str, str]
    ) -> Receipt:
        try:
            with self._database.write() as connection:
                key = self._key(connection, session)
                ringing = self._doorbell is not None
                stored = store(
                    connection, self._database, key, told, ringing=ringing, carrier=carrier
                )
        except IntegrityError:
            with self._database.read() as connection:
                record = self._record(connection, session)
                receipt = receipt_again(connection, record, told)
            tell_stored(record.owner, receipt, None)
            return receipt
        if stored is None:
            raise SessionNotFound(_id(session), self._owner)
        receipt, due = stored
        if due is not None and self._doorbell is not None:
            self._doorbell.ring(due)
        whose = session.owner if isinstance(session, Session) else self._owner
        tell_stored(whose, receipt, due)
        return receipt

    def _key_of(self, session: Session | str) -> int:
        if isinstance(session, Session):
            return session.key
        with self._database.read() as connection:
            return self._look_up(connection, session)

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


def _patience(wait: float) -> Patience:
    return Patience(check_seconds("wait", wait))


def _id(session: Session | str) -> str:
    return session.id if isinstance(session, Session) else session
