"""Put one marker in the place of what leaves the view: the delta of ENGINE.md §2."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlalchemy import Connection

from storage import cursors, messages, sessions, summaries
from storage.cursors import CursorName
from storage.engine import Database
from storage.rows import Kind
from storage.sessions import SessionRecord
from storage.summaries import SummaryKind, SummaryStatus
from workers.batch.span import Span
from workers.closing import StaleError
from workers.marker import frame_tokens
from workers.summariser.structured_prompts import BATCH_TEMPLATE_VERSION
from workers.tokens import estimate_text


@dataclass(frozen=True, slots=True)
class Substitute:
    """What the marker shows, and who wrote it."""

    kind: SummaryKind
    text: str
    verbatim: str
    model: str
    tokens: int = field(init=False)
    """What the marker takes in the view, its frame included."""

    def __post_init__(self) -> None:
        shown = "\n\n".join(filter(None, (self.text, self.verbatim)))
        object.__setattr__(self, "tokens", estimate_text(shown) + frame_tokens())


def smallest(
    kind: SummaryKind, text: str, verbatim: str, model: str, replaced_tokens: int
) -> Substitute:
    """`text` with its verbatim part, or without where that alone makes it smaller than what it
    replaces."""
    whole = Substitute(kind, text, verbatim, model)
    return whole if whole.tokens < replaced_tokens else Substitute(kind, text, "", model)


def substitute(
    connection: Connection,
    database: Database,
    session: SessionRecord,
    span: Span,
    new: Substitute,
    *,
    cursor_before: int,
) -> tuple[int, SessionRecord]:
    """Archive a span and let a marker show `new` at its place; gives the summary's id and the
    session as it is then. Everything before the marker counts as absorbed.

    The caller holds the session's row. Raises `StaleError` where other rows are live than planned.
    """
    key = session.key
    shown = [row.summary_id for row in span.markers if row.summary_id is not None]
    replaced = [summaries.fetch(connection, summary_id) for summary_id in shown]
    summary_id = summaries.insert_summary(
        connection,
        database,
        key,
        kind=new.kind,
        text=new.text,
        verbatim=new.verbatim,
        tokens=new.tokens,
        first_position=min([span.first_position, *(one.first_position for one in replaced)]),
        last_position=span.place,
        replaces=replaced[0].id if replaced else None,
        cursor_before=cursor_before,
        template=BATCH_TEMPLATE_VERSION,
        model=new.model,
    )
    summaries.set_status(connection, shown, SummaryStatus.SUPERSEDED)
    archived = messages.archive_between(
        connection,
        key,
        first=span.messages[0].position,
        last=span.messages[-1].position,
        kept=span.kept,
        summary_id=summary_id,
    )
    markers = [row.id for row in span.markers]
    if archived != len(span.messages) or messages.archive(
        connection, markers, summary_id=summary_id
    ) != len(markers):
        raise StaleError
    messages.insert_marker(
        connection,
        database,
        key,
        kind=Kind.BATCH,
        position=span.place,
        tokens=new.tokens,
        summary_id=summary_id,
    )
    cursors.move(connection, key, CursorName.MICRO, span.place + 1)
    change = new.tokens - span.tokens
    after = sessions.count_change(
        connection,
        key,
        messages=1 - archived - len(markers),
        tokens=change,
        passes=1,
        saved=-change,
    )
    return summary_id, after
