"""Documents of the index: each a message, a part of a long one, or a summary.

A document's number identifies its row: `(id << 8) + part` for messages, the negative of it for
summaries. So numbers grow with time, and the newest are those furthest from 0.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, bindparam, select

from storage.conversations.payload import join
from storage.models import Message, Session, Summary
from storage.search.scope import Label, label, triple
from storage.search.words import Word, words_of

_PART_BITS = 8
_LAST_PART = (1 << _PART_BITS) - 1


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """The row of a document: a message's id, or a summary's."""

    id: int
    is_summary: bool = False

    @property
    def number(self) -> int:
        """The row's number: the id, negative for a summary."""
        return -self.id if self.is_summary else self.id


@dataclass(frozen=True, slots=True)
class Document:
    """The content of the index for one number."""

    number: int
    words: Sequence[Word]
    labels: tuple[str, ...]
    triples: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Stored:
    """A row as it is searched."""

    place: Place
    owner: str
    session: int
    source: str
    role: str | None
    content: str | None
    fields: str | None

    @property
    def text(self) -> str:
        return searchable(self.role, self.content, self.fields)


def number_of(place: Place, part: int = 0) -> int:
    """Return the number of a row's document."""
    number = (place.id << _PART_BITS) + part
    return -number if place.is_summary else number


def place_of(number: int) -> Place:
    """Return the row of a document."""
    return Place(abs(number) >> _PART_BITS, number < 0)


def part_of(number: int) -> int:
    """Return which part of its row's text a document is."""
    return abs(number) & _LAST_PART


def last_number(place: Place) -> int:
    """Return the highest number that a document of the row may have."""
    return number_of(place, _LAST_PART)


def read_stored(connection: Connection, places: Sequence[Place]) -> list[Stored]:
    """Return the existing rows at `places`, whatever their flags. Markers are left out: what they
    show is in `summaries`."""
    messages = [place.id for place in places if not place.is_summary]
    summaries = [place.id for place in places if place.is_summary]
    found: list[Stored] = []
    if messages:
        found += [
            Stored(Place(id_), owner, session, source, role, content, fields)
            for id_, owner, session, source, role, content, fields in connection.execute(
                _MESSAGES, {"ids": messages}
            )
        ]
    if summaries:
        found += [
            Stored(Place(id_, is_summary=True), owner, session, source, None, text, None)
            for id_, owner, session, source, text in connection.execute(
                _SUMMARIES, {"ids": summaries}
            )
        ]
    return found


def documents_of(stored: Stored) -> Iterator[Document]:
    """Yield the documents of a row; none where it has nothing to search."""
    text = stored.text
    facts = (
        (Label.OWNER, stored.owner),
        (Label.SESSION, str(stored.session)),
        (Label.SOURCE, stored.source),
    )
    labels = tuple(label(*fact) for fact in facts)
    triples = tuple(triple(*fact) for fact in facts)
    for part, (start, end) in enumerate(parts(text)):
        piece = text[start:end]
        words = words_of(piece)
        if words:
            yield Document(number_of(stored.place, part), words, labels, triples, piece)


_OF_SESSION = (Session.owner, Session.key, Session.source)
_MESSAGES = (
    select(Message.id, *_OF_SESSION, Message.role, Message.content, Message.fields)
    .join(Session, Session.key == Message.session_key)
    .where(Message.id.in_(bindparam("ids", expanding=True)), Message.kind == "message")
)
_SUMMARIES = (
    select(Summary.id, *_OF_SESSION, Summary.text)
    .join(Session, Session.key == Summary.session_key)
    .where(Summary.id.in_(bindparam("ids", expanding=True)))
)


RECALL_TOOL = "session_search"
"""Name of the agent tool over this search. Its results are not indexed: they are copies of stored
text, and would be found again and again."""

PART = 4_000
"""Characters of a document at most; a longer message is several, of which any may be found."""

OVERLAP = 200
"""Characters that a document shares with the previous one, so that a phrase is whole in one."""

MOST_PARTS = 1 << 8
"""Documents of one message: a million characters. The rest is only found by scrolling."""


def searchable(role: str | None, content: str | None, fields: str | None) -> str:
    """Return the text of a message as it is searched, from its row."""
    if fields is None:
        return content or ""
    message = join(role, content, fields)
    if role == "tool" and message.get("name") == RECALL_TOOL:
        return ""
    return "\n".join(text for text in (*_strings(message.get("content")), *_calls(message)) if text)


def parts(text: str) -> list[tuple[int, int]]:
    """Return where the documents of a text begin and end, in characters."""
    found: list[tuple[int, int]] = []
    start = 0
    while len(found) < MOST_PARTS:
        end = len(text) if len(text) - start <= PART else _gap(text, start + PART)
        found.append((start, end))
        if end == len(text):
            break
        start = _gap(text, end - OVERLAP // 2)
    return found


def _gap(text: str, at: int) -> int:
    """Return the last place before `at` where no word is cut; `at` itself where there is none
    near."""
    for place in range(at, at - OVERLAP // 2, -1):
        if text[place - 1].isspace():
            return place
    return at


def _strings(content: Any) -> Iterator[str]:
    """Yield text from content of any shape; images and the like have none."""
    match content:
        case str():
            yield content
        case list():
            for part in content:
                yield from _strings(part)
        case dict():
            yield from _strings(content.get("text"))
            yield from _strings(content.get("content"))


def _calls(message: dict[str, Any]) -> Iterator[str]:
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            yield from _strings(function.get("name"))
            yield from _arguments(function.get("arguments"))


def _arguments(arguments: Any) -> Iterator[str]:
    """Yield names and values: in their JSON a word may be written in escapes."""
    if not isinstance(arguments, str):
        yield from _leaves(arguments)
        return
    try:
        yield from _leaves(json.loads(arguments))
    except (ValueError, RecursionError):
        yield arguments


def _leaves(value: Any) -> Iterator[str]:
    match value:
        case dict():
            for name, inner in value.items():
                yield str(name)
                yield from _leaves(inner)
        case list():
            for inner in value:
                yield from _leaves(inner)
        case None:
            return
        case _:
            yield str(value)
