"""Positions of the rows of an imported session, and of its summary among them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from sqlalchemy import Connection

from producers.importing.source import SourceRow, SourceSession, State
from storage.conversations import cursors, messages, summaries
from storage.conversations.cursors import CursorName
from storage.conversations.messages import Draft
from storage.conversations.rows import Kind
from storage.conversations.summaries import SummaryKind
from storage.engine import Database
from workers.conversation.markers import frame_tokens
from workers.conversation.tokens import estimate_text
from workers.redaction import redact

IMPORTED = "imported"
"""Template and model of an imported summary."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A row with its draft and its position."""

    row: SourceRow
    draft: Draft
    position: int


@dataclass(frozen=True, slots=True)
class Layout:
    """The rows of a session in order.

    `hole` is a position that stays free for a summary whose originals are missing; `covered` says
    that archived rows stay archived, under a summary.
    """

    placed: tuple[Placed, ...]
    hole: int | None = None
    covered: bool = False

    @property
    def archived(self) -> list[int]:
        """The positions of the rows that the summary absorbs."""
        if not self.covered:
            return []
        return [one.position for one in self.placed if one.row.state is State.ARCHIVED]

    @property
    def live(self) -> list[Placed]:
        """The rows that stay in the view."""
        gone = set(self.archived)
        return [one for one in self.placed if one.position not in gone]

    @property
    def next_position(self) -> int:
        return len(self.placed) + (self.hole is not None)


def lay_out(found: SourceSession, good: Sequence[tuple[SourceRow, Draft]]) -> Layout:
    """Assign a position to every row that can be stored."""
    covered = bool(found.summaries) and any(row.state is State.ARCHIVED for row, _ in good)
    hole = None
    if found.summaries and not covered:
        kept = {row.number for row in found.rows[: found.summaries[-1].before]}
        hole = sum(row.number in kept for row, _ in good)
    placed = tuple(
        Placed(row, draft, place + (hole is not None and place >= hole))
        for place, (row, draft) in enumerate(good)
    )
    return Layout(placed, hole, covered)


def append(connection: Connection, key: int, placed: Sequence[Placed], at: int) -> None:
    """Store rows at their positions; `at` is the time of rows without one."""
    for _, run in groupby(enumerate(placed), lambda pair: pair[1].position - pair[0]):
        part = [one for _, one in run]
        messages.append(
            connection,
            key,
            [one.draft for one in part],
            first_position=part[0].position,
            at=[one.row.at or at for one in part],
        )


def store_summary(
    connection: Connection, database: Database, key: int, found: SourceSession, layout: Layout
) -> int:
    """Store all summaries of the session as one batch summary that covers the archived rows.

    Returns the tokens of its marker.
    """
    text = redact("\n\n".join(one.text for one in found.summaries))
    tokens = estimate_text(text) + frame_tokens()
    archived = layout.archived or [layout.hole or 0]
    first, last = archived[0], archived[-1]
    summary_id = summaries.insert_summary(
        connection,
        database,
        key,
        kind=SummaryKind.BATCH,
        text=text,
        tokens=tokens,
        first_position=first,
        last_position=last,
        replaces=None,
        cursor_before=0,
        template=IMPORTED,
        model=IMPORTED,
    )
    if layout.archived:
        messages.archive_between(
            connection,
            key,
            first=first,
            last=last,
            kept=[one.position for one in layout.live if first < one.position < last],
            summary_id=summary_id,
        )
    messages.insert_marker(
        connection,
        database,
        key,
        kind=Kind.BATCH,
        position=last,
        tokens=tokens,
        summary_id=summary_id,
    )
    cursors.move(connection, key, CursorName.MICRO, last + 1)
    return tokens
