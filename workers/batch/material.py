"""What a summary is made from: originals, and the good summaries before them (ENGINE.md §10)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import Connection

from storage import messages, summaries
from storage.rows import Row
from storage.summaries import SummaryKind
from workers.batch.span import Span
from workers.summariser.headings import as_progress
from workers.tokens import estimate_text


@dataclass(frozen=True, slots=True)
class Material:
    """Message rows in view order, and the text of the summaries that they follow."""

    rows: tuple[Row, ...]
    previous: str

    @property
    def tokens(self) -> int:
        """What a summary made from it stands for: the rows, and what was told before them."""
        return sum(row.tokens for row in self.rows) + estimate_text(self.previous)


def material_of(connection: Connection, key: int, span: Span) -> Material:
    """Read what a span of the live view was made of."""
    taken = {row.position for row in span.messages}
    rows = messages.read_between(
        connection, key, first=span.messages[0].position, last=span.messages[-1].position
    )
    markers = messages.read_markers(connection, key) if span.markers else []
    return opened(connection, key, [*markers, *(row for row in rows if row.position in taken)])


def opened(connection: Connection, key: int, rows: Iterable[Row]) -> Material:
    """Open the placeholders among `rows` down to their originals; keep every other summary."""
    found: list[Row] = []
    previous: list[str] = []
    waiting = list(rows)[::-1]
    while waiting:
        row = waiting.pop()
        if row.summary_id is None:
            found.append(row)
        elif summaries.fetch(connection, row.summary_id).kind is SummaryKind.PLACEHOLDER:
            waiting.extend(messages.read_absorbed(connection, key, row.summary_id)[::-1])
        else:
            # A rolling summary has no sections; after a batch summary it is what was done since.
            previous.append(as_progress(row.summary or ""))
    found.sort(key=lambda row: row.position)
    return Material(tuple(found), "\n\n".join(filter(None, previous)))
