"""Sessions as gateways see them: get or create."""

from __future__ import annotations

import unicodedata
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import Connection

from producers.arguments import RequestError
from storage.conversations import sessions
from storage.conversations.sessions import SessionRecord
from storage.engine import Database
from storage.errors import SessionClash
from workers.policy.threshold import (
    ManagedBy,
    NoUsableWindowError,
    server_threshold,
    session_threshold,
)
from workers.settings import CompressionSettings

MAX_TITLE_CHARS = 100

NOBODY = "nobody"
"""The value that ends the compaction of a session by another system."""

_TRIES = 100
"""Attempts to create a session. One fails only if another caller took the id, chat or title."""


@dataclass(frozen=True, slots=True)
class Session:
    """An open session of one owner, as it was when it was opened.

    `system_prompt` is the first one that the session was opened with, byte for byte, even if later
    calls passed another: send it before `Context.messages`, so the provider's prompt cache stays
    valid. `context_window` and `reserved_output` are in tokens, and so is `threshold`, at which
    compaction starts: None where the window leaves no room for a conversation. The gateway sends
    `server_threshold` to OpenAI where OpenAI compacts this session's model; it is below ours, and
    None for other sessions.
    """

    key: int
    owner: str
    id: str
    source: str
    chat_id: str | None
    thread_id: str | None
    title: str | None
    model: str
    context_window: int | None
    reserved_output: int
    system_prompt: str | None
    managed_by: str | None = None
    threshold: int | None = None
    server_threshold: int | None = None


@dataclass(frozen=True, slots=True)
class SessionRequest:
    """A request to open a session, which is found by its id, else by source, chat and thread.

    From `model` on, None leaves an existing session unchanged; `model_config` is JSON.
    `managed_by` is one of `ManagedBy`, or `nobody`.
    """

    owner: str
    session_id: str | None
    source: str
    chat_id: str | None
    thread_id: str
    title: str | None
    model: str | None
    model_config: str | None
    context_window: int | None
    reserved_output: int | None
    managed_by: str | None = None


def session_of(
    record: SessionRecord, system_prompt: str | None, settings: CompressionSettings
) -> Session:
    """Return a stored session in the form for gateways."""
    try:
        threshold = session_threshold(record, settings)
    except NoUsableWindowError:
        threshold = None
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
        managed_by=record.managed_by,
        threshold=threshold.tokens if threshold else None,
        server_threshold=server_threshold(record, threshold, settings) if threshold else None,
    )


def check_managed_by(managed_by: object) -> str | None:
    """Check the name of the system that compacts a session. Raises `RequestError`.

    None leaves it unchanged.
    """
    known = [*ManagedBy, NOBODY]
    if managed_by is not None and managed_by not in known:
        names = ", ".join(known)
        raise RequestError("managed_by", f"must be one of {names}, is {managed_by!r:.40}")
    return None if managed_by is None else str(managed_by)


def get_or_create(
    connection: Connection, database: Database, wanted: SessionRequest
) -> SessionRecord:
    """Get the session, open and up to date, or create it. Safe against concurrent callers.

    Raises `SessionClash` when another session is open in its chat. The driver's IntegrityError
    means the same for a session that was to be reopened.
    """
    for _ in range(_TRIES):
        found = _find(connection, wanted)
        if found is not None:
            _refuse_another_chat(found, wanted)
            return _managed(connection, _bring_up_to_date(connection, found, wanted), wanted)
        created = _create(connection, database, wanted)
        if created is not None:
            return _managed(connection, created, wanted)
        _refuse_chat_of_another(connection, wanted)
    raise SessionClash(
        f"owner {wanted.owner!r}: session {wanted.session_id or wanted.chat_id!r} was created and "
        "closed by others at the same time; open it again"
    )


def clean_title(text: str) -> str | None:
    """Return a title of at most 100 characters, None where nothing is left.

    Control, zero-width and direction characters are removed.
    """
    visible = "".join(
        " " if c.isspace() else c for c in text if c.isspace() or unicodedata.category(c)[0] != "C"
    )
    return " ".join(visible.split())[:MAX_TITLE_CHARS].rstrip() or None


def free_title(title: str, is_taken: Callable[[str], bool]) -> str:
    """Return `title`, with the lowest free number where it is taken.

    Checks a number of titles that is logarithmic in the number of those taken.
    """
    if not is_taken(title):
        return title
    taken, free = 1, 2
    while is_taken(_numbered(title, free)):
        taken, free = free, 2 * free
    while free - taken > 1:
        middle = (taken + free) // 2
        if is_taken(_numbered(title, middle)):
            taken = middle
        else:
            free = middle
    return _numbered(title, free)


def _find(connection: Connection, wanted: SessionRequest) -> SessionRecord | None:
    if wanted.session_id is not None:
        return sessions.find(connection, owner=wanted.owner, session_id=wanted.session_id)
    if wanted.chat_id is None:
        return None
    return _open_in_chat(connection, wanted, wanted.chat_id)


def _open_in_chat(
    connection: Connection, wanted: SessionRequest, chat_id: str
) -> SessionRecord | None:
    return sessions.find_chat(
        connection,
        owner=wanted.owner,
        source=wanted.source,
        chat_id=chat_id,
        thread_id=wanted.thread_id,
    )


def _create(
    connection: Connection, database: Database, wanted: SessionRequest
) -> SessionRecord | None:
    """Create the session; None when another caller has just taken its id, chat or title."""
    return sessions.create(
        connection,
        database,
        {
            "owner": wanted.owner,
            "id": wanted.session_id or _new_id(),
            "source": wanted.source,
            "chat_id": wanted.chat_id,
            "thread_id": wanted.thread_id,
            "title": _free_title(connection, wanted),
            "model": wanted.model or "",
            "model_config": wanted.model_config,
            "context_window": wanted.context_window,
            "reserved_output": wanted.reserved_output or 0,
        },
    )


def _bring_up_to_date(
    connection: Connection, record: SessionRecord, wanted: SessionRequest
) -> SessionRecord:
    """Reopen an ended session, and change model and window to the given values."""
    if record.ended_at is not None:
        record = sessions.reopen(connection, record.key)
    given = (wanted.model, wanted.model_config, wanted.context_window, wanted.reserved_output)
    if given == (None, None, None, None):
        return record
    return sessions.set_model(
        connection,
        record.key,
        model=record.model if wanted.model is None else wanted.model,
        model_config=wanted.model_config or record.model_config,
        context_window=(
            record.context_window if wanted.context_window is None else wanted.context_window
        ),
        reserved_output=(
            record.reserved_output if wanted.reserved_output is None else wanted.reserved_output
        ),
    )


def _managed(
    connection: Connection, record: SessionRecord, wanted: SessionRequest
) -> SessionRecord:
    given = None if wanted.managed_by == NOBODY else wanted.managed_by
    if wanted.managed_by is None or given == record.managed_by:
        return record
    return sessions.set_managed_by(connection, record.key, given)


def _free_title(connection: Connection, wanted: SessionRequest) -> str | None:
    """Return the wanted title, with a number where the owner already uses it."""
    title = clean_title(wanted.title) if wanted.title else None
    if title is None:
        return None
    return free_title(
        title, lambda text: sessions.has_title(connection, owner=wanted.owner, title=text)
    )


def _refuse_another_chat(found: SessionRecord, wanted: SessionRequest) -> None:
    """Raise `SessionClash` if another chat has the session: two chats must not share one."""
    if wanted.chat_id is None or found.chat_id is None:
        return
    its = (found.source, found.chat_id, found.thread_id)
    if its != (wanted.source, wanted.chat_id, wanted.thread_id):
        raise SessionClash(
            f"owner {wanted.owner!r}: session {found.id!r} belongs to chat {found.chat_id!r} of "
            f"{found.source}, not to chat {wanted.chat_id!r} of {wanted.source}; leave the id out"
        )


def _refuse_chat_of_another(connection: Connection, wanted: SessionRequest) -> None:
    if wanted.session_id is None or wanted.chat_id is None:
        return
    other = _open_in_chat(connection, wanted, wanted.chat_id)
    if other is not None and other.id != wanted.session_id:
        raise SessionClash(
            f"owner {wanted.owner!r}: session {wanted.session_id!r} cannot be created, because its "
            f"chat has session {other.id!r} open; close that one first"
        )


def _new_id() -> str:
    """Return `YYYYMMDD_HHMMSS_` and eight hexadecimal digits."""
    return f"{datetime.now(UTC):%Y%m%d_%H%M%S}_{uuid.uuid4().hex[:8]}"


def _numbered(title: str, number: int) -> str:
    """Return the title of the `number`-th session with it; the first has it unchanged."""
    if number == 1:
        return title
    mark = f" #{number}"
    return title[: MAX_TITLE_CHARS - len(mark)].rstrip() + mark
