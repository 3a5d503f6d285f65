"""Compare what the database holds at the end with the conversation that was played."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from afterturn.demo.play import is_request
from producers.gateway import Gateway
from producers.session import Session
from storage.conversations import messages, sessions
from storage.conversations.rows import Kind
from storage.engine import Database


@dataclass(frozen=True, slots=True)
class Findings:
    """What was found. Counts of messages; `altered_messages` are stored ones that nobody sent.

    `in_order` says that the stored messages, live and archived, are those of the conversation in
    its order. `counted_tokens` is the live view added up row by row, beside the session's own
    counter `live_tokens`.
    """

    lost_messages: int
    duplicate_messages: int
    altered_messages: int
    in_order: bool
    user_messages: int
    user_messages_verbatim: bool
    live_markers: int
    live_messages: int
    archived_messages: int
    live_tokens: int
    counted_tokens: int
    passes: int
    tokens_saved: int


def verify(
    database: Database, gateway: Gateway, session: Session, sent: Sequence[dict[str, Any]]
) -> Findings:
    """Read everything back and compare it byte for byte with what was `sent`.

    Users' messages are looked for in the context as a model would get it.
    """
    with database.read() as connection:
        record = sessions.fetch(connection, session.key)
        view = messages.read_view(connection, session.key)
        stored = [
            row
            for row in messages.read_everything(connection, session.key)
            if row.kind is Kind.MESSAGE
        ]
    context = gateway.load_context(session)
    originals = [_bytes(message) for message in sent]
    found = [_bytes(row.message) for row in stored]
    missing, surplus = Counter(originals) - Counter(found), Counter(found) - Counter(originals)
    known = set(originals)
    requests = [_bytes(message) for message in sent if is_request(message)]
    live = [row for row in view if row.kind is Kind.MESSAGE]
    return Findings(
        lost_messages=missing.total(),
        duplicate_messages=sum(times for text, times in surplus.items() if text in known),
        altered_messages=sum(times for text, times in surplus.items() if text not in known),
        in_order=found == originals,
        user_messages=len(requests),
        user_messages_verbatim=_is_within(requests, map(_bytes, context.messages)),
        live_markers=len(view) - len(live),
        live_messages=len(live),
        archived_messages=len(stored) - len(live),
        live_tokens=record.live_tokens,
        counted_tokens=sum(row.tokens for row in view),
        passes=record.passes,
        tokens_saved=record.tokens_saved,
    )


def _bytes(message: Any) -> str:
    """The message as JSON text: equal texts are equal byte for byte, the order of keys included."""
    return json.dumps(message, ensure_ascii=False)


def _is_within(wanted: Sequence[str], texts: Iterable[str]) -> bool:
    """Whether all of `wanted` occur among `texts` in their order."""
    rest: Iterator[str] = iter(texts)
    return all(any(text == candidate for candidate in rest) for text in wanted)
