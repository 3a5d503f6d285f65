"""The interface for gateways."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from producers import late

if TYPE_CHECKING:
    from producers.reading import Context, Output
    from producers.results import Compaction
    from producers.session import Session
    from producers.turn import Origins, Receipt, Usage
    from storage.conversations.messages import Amount
    from storage.conversations.undo import Rewound, Undone
    from storage.engine import Database
    from storage.signals import Signal
    from workers.rendering import Dialect
    from workers.settings import Settings


class Gateway:
    """A gateway's interface to the shared database and the queue.

    Safe to use from many threads; a forked process makes its own. Use it as a context manager, or
    call `close`.

    A session is given as the `Session` that `open_session` returned, or by its id; an id is looked
    up with `owner`, so two owners may use the same ids and titles without conflict.

    Every method raises `DatabaseUnavailable` when the database fails; then nothing was stored and
    the same call may be repeated. Give turns an `event_id` for that: when the connection breaks
    during a commit, its success is unknown. Methods that look up a session
    raise `SessionNotFound` when the owner has none of that id. Every error is an `AfterturnError`.

    Args:
        settings: All settings; by default those of the configuration file and the environment,
            and block `compression` then follows the file.
        owner: The owner of sessions where a call does not name one.
        database: An open database to use; it stays open when the gateway is closed. By default
            the one of the settings is opened.
        actor: The actor in the audit trail; by default this process.

    Raises:
        SettingsError: The configuration cannot be used.
        IdentifierError: `owner` or `actor` is empty or longer than 512 bytes.
        SchemaOutdated: The database's tables are not those of this version.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        owner: str = "local",
        database: Database | None = None,
        actor: str | None = None,
    ) -> None:
        self._operations = late.open_operations(
            settings, owner=owner, database=database, actor=actor
        )

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
        """Publish waiting notifications for at most a second and close the connections."""
        self._operations.close()

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

        Model and window of an existing session are changed to the given values.

        Args:
            session_id: The id; by default the chat's open session or a new id.
            source: The platform of the chat.
            chat_id: The chat on that platform.
            thread_id: The thread in that chat.
            owner: The owner of the session; by default the gateway's owner.
            title: A title; one that the owner already uses is given a number.
            model: The model's name.
            model_config: Anything to keep with the model, as JSON.
            context_window: The model's window in tokens; 128,000 is assumed where unknown.
            reserved_output: Tokens of the window that are kept for answers.
            system_prompt: Stored at the first call and kept from then on.
            managed_by: The other system that compacts the conversation: `codex` for a thread that
                a Codex app server owns, `openai` for compaction on OpenAI's side, `nobody` to end
                either.

        Raises:
            SessionClash: Its chat has another session open.
            IdentifierError: A name is empty or longer than 512 bytes.
            WindowError: A window or reserve is no number of tokens or leaves no room.
            RequestError: `managed_by` is not known.
        """
        return self._operations.open_session(
            session_id,
            source=source,
            chat_id=chat_id,
            thread_id=thread_id,
            owner=owner,
            title=title,
            model=model,
            model_config=model_config,
            context_window=context_window,
            reserved_output=reserved_output,
            system_prompt=system_prompt,
            managed_by=managed_by,
        )

    def close_session(self, session: Session | str) -> None:
        """Mark a session as ended.

        The next message of its chat opens a new one; it can be reopened by its id.
        """
        self._operations.close_session(session)

    def set_model(
        self,
        session: Session | str,
        model: str,
        *,
        context_window: int | None = None,
        reserved_output: int = 0,
        model_config: Mapping[str, Any] | None = None,
    ) -> None:
        """Change the session's model and window; the calibration for the old model is dropped.

        Args:
            session: The session or its id.
            model: The model's name.
            context_window: The model's window in tokens; None where unknown.
            reserved_output: Tokens of the window that are kept for answers.
            model_config: Anything to keep with the model, as JSON.

        Raises:
            WindowError: A window or reserve is no number of tokens or leaves no room.
        """
        self._operations.set_model(
            session,
            model,
            context_window=context_window,
            reserved_output=reserved_output,
            model_config=model_config,
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

        Idempotent on `event_id`: the same call again changes nothing and its receipt says so. The
        broker never keeps the caller waiting, and its failures never reach the caller.

        Args:
            session: The session or its id.
            messages: OpenAI chat dicts, which are returned byte for byte; empty when `append`
                stored all.
            usage: The provider's report on the request, with the revision of its context.
            event_id: A name of this turn, at most 512 bytes; by default a new one.
            origins: Who wrote user-role messages: by index, or one entry per message.

        Raises:
            MessageError: A message cannot be stored; nothing of the turn was.
            UsageError: The usage report cannot be read; nothing of the turn was stored.
            EventConflict: The id was used before with other messages.
            IdentifierError: The id is empty or too long.
        """
        return self._operations.store(
            session, messages, usage=usage, event_id=event_id, origins=origins, closes_turn=True
        )

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
        """Store rows in the middle of a turn. Arguments and errors as in `finalize_turn`.

        Compaction does not touch an open turn, except its closed tool groups when `usage` shows
        that the threshold is reached. With `turn_open=False` this is `finalize_turn`.
        """
        return self._operations.store(
            session,
            messages,
            usage=usage,
            event_id=event_id,
            origins=origins,
            closes_turn=not turn_open,
        )

    def load_context(self, session: Session | str, *, dialect: Dialect | str = "openai") -> Context:
        """Return the live view, rendered for a provider.

        It does not include the system prompt of `open_session`; send that first.

        Args:
            session: The session or its id.
            dialect: `openai`, `anthropic` or `strict`; another raises `ValueError`.
        """
        return self._operations.load_context(session, dialect)

    def preflight(
        self, session: Session | str, *, tokens: int | None = None, wait: float = 0.0
    ) -> Compaction:
        """Check before a request whether to send it (`go`) or to compact first.

        At the threshold or above, or at `hygiene_hard_message_limit` live messages, a batch pass
        is enqueued unless a guard suppresses it. With `wait` this waits for it and continues while
        passes make progress, at most `max_attempts` in one turn. Without a worker the result after
        that time is a pending one, not an error.

        Args:
            session: The session or its id.
            tokens: Your estimate of the whole request, in tokens; by default that of the stored
                view counts, calibrated by reported usage.
            wait: Seconds to wait at most.

        Raises:
            CompressionStuck: The caller waited for a pass, which left nearly all of a session
                that is still over its threshold.
            RequestError: An argument is not valid.
        """
        return self._operations.preflight(session, tokens=tokens, wait=wait)

    def hygiene(self, session: Session | str, *, wait: float = 0.0) -> Compaction:
        """Compact a session that has become far too large, before a user's turn.

        That is one at 85 % of its window, or at its threshold where that is higher, by our
        estimate, or one of `hygiene_hard_message_limit` live messages, even with every model and
        the network down. One pass per call.

        Args:
            session: The session or its id.
            wait: Seconds to wait at most.

        Raises:
            CompressionStuck: As in `preflight`.
            RequestError: `wait` is not a number of seconds.
        """
        return self._operations.hygiene(session, wait=wait)

    def report_error(
        self, session: Session | str, error: object, *, wait: float = 0.0
    ) -> Compaction:
        """Report an error of the model's provider; `retry` says whether to send again.

        Payloads, contexts and outputs that are too large and limits on long contexts enqueue a
        pass that no guard suppresses, only `compression.enabled`; every other error enqueues
        nothing and is not `recognised`. A window that the provider states is stored.

        Args:
            session: The session or its id.
            error: The exception as the provider's client raised it, a mapping with `status`,
                `code` and `message`, or a text.
            wait: Seconds to wait at most.

        Raises:
            CompressionStuck: The caller waited for a pass, which left nearly all of a session
                that still does not fit its window.
            RequestError: `wait` is not a number of seconds.
        """
        return self._operations.report_error(session, error, wait=wait)

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
        """Compact a session because a person requests it, at any size and past every guard.

        It also ends cooldown and anti-thrash. While an earlier such request waits, its options
        apply. Give at most one of `keep_last`, `around` and `up_to`.

        Args:
            session: The session or its id.
            focus: A topic that gets most of the summary; 500 characters of it are kept.
            keep_last: How many of the newest turns stay as they are.
            around: A message's position; the turns near it are compacted.
            up_to: A message's position at which the compacted part ends.
            wait: Seconds to wait at most.

        Raises:
            CompressionStuck: The caller waited for a pass over everything, which left 90 % or
                more.
            RequestError: An argument is not valid.
        """
        return self._operations.compact(
            session, focus=focus, keep_last=keep_last, around=around, up_to=up_to, wait=wait
        )

    def request_compaction(self, session: Session | str, *, wait: float = 0.0) -> Compaction:
        """Compact a session because a plugin requests it, below the threshold too.

        Once a turn; guards suppress it.

        Args:
            session: The session or its id.
            wait: Seconds to wait at most.

        Raises:
            CompressionStuck: The caller waited for a pass, which left 90 % or more.
            RequestError: `wait` is not a number of seconds.
        """
        return self._operations.request_compaction(session, wait=wait)

    def signals(
        self,
        session: Session | str | None = None,
        *,
        after: int = 0,
        quiet: bool = False,
        limit: int = 100,
    ) -> list[Signal]:
        """Return signals of the owner's sessions, or of one of them, oldest first.

        Args:
            session: Only signals of this session or id.
            after: Only signals with a greater id, such as that of the last one received.
            quiet: Also signals of progress that users need not see.
            limit: Maximum number of signals, up to 10,000.

        Raises:
            RequestError: An argument is not valid.
        """
        return self._operations.signals(session, after=after, quiet=quiet, limit=limit)

    def listen(
        self,
        *,
        after: int | None = None,
        quiet: bool = False,
        poll_seconds: float = 1.0,
        stop: Callable[[], bool] | None = None,
    ) -> Iterator[Signal]:
        """Yield the owner's signals as they are stored: each once, in order, endlessly.

        Over a Redis broker they arrive at once, otherwise within `poll_seconds`.

        Args:
            after: Start after the signal of this id; by default now.
            quiet: Also signals of progress that users need not see.
            poll_seconds: Seconds between two reads of the table.
            stop: Called several times a second; the iterator ends when it returns True.

        Raises:
            DatabaseUnavailable: The database failed: continue with the last id as `after`.
            RequestError: An argument is not valid.
        """
        return self._operations.listen(
            after=after, quiet=quiet, poll_seconds=poll_seconds, stop=stop or (lambda: False)
        )

    def rewind(
        self, session: Session | str, *, turns: int = 1, to_position: int | None = None
    ) -> Rewound:
        """Take back the last turns. The rows stay stored but are neither shown nor searched.

        Compactions that reach beyond the cut are undone, so that the view before it is whole.

        Args:
            session: The session or its id.
            turns: How many turns.
            to_position: Instead, all turns from the one that starts at this position.

        Raises:
            RewindError: The session has no such turn.
        """
        return self._operations.rewind(session, turns=turns, to_position=to_position)

    def undo(self, session: Session | str) -> Undone | None:
        """Take back the session's last compaction; None when there is none.

        Last in, first out. Automatic passes of the session then wait for its next turn.
        """
        return self._operations.undo(session)

    def fetch_output(self, handle: str) -> Output:
        """Return the stored message that a note in the context replaces.

        Offer a model a tool that calls this, so that it can read old tool output again. Only
        messages of the gateway's owner are found.

        Args:
            handle: The handle at the note's end, such as `out-12-345`.

        Raises:
            HandleError: The text is not a handle.
            OutputNotFound: The owner has no such output.
        """
        return self._operations.fetch_output(handle)

    def unprune(self, session: Session | str) -> Amount:
        """Show old tool output of a session in full again.

        Automatic passes then wait for the session's next turn.

        Returns:
            The number of messages that were shown short, and of tokens that came back.
        """
        return self._operations.unprune(session)

    def search(self, query: str | None = None, **options: Any) -> dict[str, Any]:
        """Search all messages of the owner's sessions, live and archived.

        No model is called. The arguments are those of the agent tool `session_search`
        (`SESSION_SEARCH_TOOL`): with `query`, the messages that match it, best first; with
        `session_id` and `around_message_id`, a part of that session; with none of them, the latest
        sessions.

        Args:
            query: Words, "phrases", AND, OR, NOT, prefix*.
            **options: The other fields of `Recall`, such as `limit`, `page`, `roles`, `source`,
                `since` and `until`.

        Returns:
            Values for JSON, of a bounded size.

        Raises:
            RequestError: An argument is not valid; never because of a query.
            SessionNotFound: The owner has no such session.
            SearchMarkError: The page belongs to another search.
        """
        return self._operations.search(query, options)
