"""Reading of a session: the context for a model, and the originals of its notes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from storage.conversations import messages, pruned
from storage.conversations.rows import Message
from storage.conversations.sessions import SessionRecord
from storage.errors import StorageError
from workers.prune.notes import Handle
from workers.prune.outputs import calls_of
from workers.rendering import Dialect, render


@dataclass(frozen=True, slots=True)
class Context:
    """The live view of a session, rendered.

    `messages` are the provider's messages, `system` the text blocks of the system text where the
    dialect separates it (`anthropic`), else empty. `tokens` is our estimate of the view. Pass
    `revision` back with the usage that the provider reports. `omitted` are the positions of rows
    that no provider would accept, such as a tool result without its call.
    """

    dialect: Dialect
    messages: list[dict[str, Any]]
    system: list[dict[str, Any]]
    tokens: int
    revision: int
    omitted: tuple[int, ...]


def load_context(connection: Connection, record: SessionRecord, dialect: Dialect) -> Context:
    """Read the live view of a session and render it."""
    view = render(messages.read_view(connection, record.key), dialect)
    return Context(
        dialect=dialect,
        messages=view.messages,
        system=view.system,
        tokens=record.live_tokens,
        revision=record.revision,
        omitted=view.omitted,
    )


class OutputNotFound(StorageError):
    """A handle without output of the owner.

    Its session belongs to another owner or was deleted, or the turn was taken back.
    """

    def __init__(self, handle: str, owner: str) -> None:
        super().__init__(f"owner {owner!r} has no output {handle!r}")
        self.handle = handle
        self.owner = owner


@dataclass(frozen=True, slots=True)
class Output:
    """A message as it was stored, even if the context shows a note instead.

    `text` is for a model: the output of the tool, or name and arguments of the calls. Images are
    only in `message`. `pruned` says that the context now shows the message short.
    """

    handle: str
    session_id: str
    position: int
    message: Message
    text: str
    pruned: bool


def fetch_output(connection: Connection, *, owner: str, handle: str) -> Output:
    """Return the owner's message that a handle names. Raises `HandleError` and `OutputNotFound`."""
    named = Handle.parse(handle)
    found = pruned.find_original(
        connection, owner=owner, key=named.session_key, position=named.position
    )
    if found is None:
        raise OutputNotFound(str(named), owner)
    return Output(
        handle=str(named),
        session_id=found.session_id,
        position=found.position,
        message=found.message,
        text="\n".join(_texts(found.message)),
        pruned=found.pruned,
    )


def _texts(message: Message) -> Iterator[str]:
    yield from _content_texts(message.get("content"))
    for call in calls_of(message):
        yield f"{call.name}({call.text})"


def _content_texts(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        for part in content:
            if isinstance(part, Mapping):
                inner = part.get("text", part.get("content", part.get("output")))
                yield from _content_texts(inner)
