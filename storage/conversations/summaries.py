"""Versions of summaries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any

from sqlalchemy import Connection, RowMapping, bindparam, insert, select, update
from sqlalchemy import text as sql

from storage.engine import Database, clock
from storage.models import Message, Summary, table_of


class SummaryKind(StrEnum):
    """The origin of a summary."""

    MICRO = "micro"
    DEFRAG = "defrag"
    BATCH = "batch"
    PLACEHOLDER = "placeholder"
    """Made without a model, to be replaced by a real one; see docs/explanation/failures.md."""
    PLACEHOLDER_REPLACED = "placeholder_replaced"
    """The real one, in the place of a placeholder."""
    RESET = "reset"
    """The last good summary, kept when everything else was archived."""

    @property
    def in_place(self) -> bool:
        """Whether it only replaced another summary: it absorbed no row of its own."""
        return self in (SummaryKind.DEFRAG, SummaryKind.PLACEHOLDER_REPLACED)

    @property
    def is_good(self) -> bool:
        """Whether a model wrote it, or the built-in summariser."""
        return self not in (SummaryKind.PLACEHOLDER, SummaryKind.RESET)


class SummaryStatus(StrEnum):
    """Live: a marker shows it. Superseded: a newer one took its place. Undone: taken back."""

    LIVE = "live"
    SUPERSEDED = "superseded"
    UNDONE = "undone"


@dataclass(frozen=True, slots=True)
class SummaryRecord:
    """One version. Positions are of the first and the last row that it covers; `tokens` is the
    size of the marker that shows it, frame included. `verbatim` is the section of covered user
    messages word for word, which the marker shows after `text`."""

    id: int
    kind: SummaryKind
    status: SummaryStatus
    text: str
    tokens: int
    first_position: int
    last_position: int
    replaces: int | None
    cursor_before: int
    verbatim: str


# Statements for the table, not the mapped class, which has more overhead.
_SUMMARIES = table_of(Summary)
_GIVEN = (
    "session_key",
    "kind",
    "text",
    "verbatim",
    "tokens",
    "first_position",
    "last_position",
    "replaces",
    "cursor_before",
    "template",
    "model",
)
_SET_STATUS = (
    update(_SUMMARIES)
    .where(_SUMMARIES.c.id == bindparam("summary"))
    .values(status=bindparam("became"))
)
_RECORD = (
    Summary.id,
    Summary.kind,
    Summary.status,
    Summary.text,
    Summary.tokens,
    Summary.first_position,
    Summary.last_position,
    Summary.replaces,
    Summary.cursor_before,
    Summary.verbatim,
)


def insert_summary(
    connection: Connection,
    database: Database,
    key: int,
    *,
    kind: SummaryKind,
    text: str,
    tokens: int,
    first_position: int,
    last_position: int,
    replaces: int | None,
    cursor_before: int,
    template: str,
    model: str,
    verbatim: str = "",
) -> int:
    """Store a live summary and return its id."""
    summary_id: int = connection.execute(
        _insert_summary(database.dialect, database.offset_ms),
        {
            "session_key": key,
            "kind": kind,
            "text": text,
            "verbatim": verbatim,
            "tokens": tokens,
            "first_position": first_position,
            "last_position": last_position,
            "replaces": replaces,
            "cursor_before": cursor_before,
            "template": template,
            "model": model,
        },
    ).scalar_one()
    return summary_id


@cache
def _insert_summary(dialect: str, offset_ms: int) -> Any:
    """Build the statement of `insert_summary` once: every pass runs it."""
    values: dict[str, Any] = {name: bindparam(name) for name in _GIVEN}
    return (
        insert(_SUMMARIES)
        .values(**values, status=SummaryStatus.LIVE, created_at=clock(dialect, offset_ms))
        .returning(_SUMMARIES.c.id)
    )


def fetch(connection: Connection, summary_id: int) -> SummaryRecord:
    """Return the summary with this id."""
    row = connection.execute(select(*_RECORD).where(Summary.id == summary_id)).mappings().one()
    return _record(row)


def newest_live(connection: Connection, key: int) -> SummaryRecord | None:
    """Return the newest summary that is shown now: the one that an undo takes back."""
    row = (
        connection.execute(
            select(*_RECORD)
            .where(Summary.session_key == key, sql("status = 'live'"))
            .order_by(Summary.id.desc())
            .limit(1)
        )
        .mappings()
        .first()
    )
    return None if row is None else _record(row)


def all_live(connection: Connection, key: int) -> list[SummaryRecord]:
    """Return the summaries that are shown now, oldest first."""
    rows = connection.execute(
        select(*_RECORD)
        .where(Summary.session_key == key, sql("status = 'live'"))
        .order_by(Summary.id)
    ).mappings()
    return [_record(row) for row in rows]


def set_status(connection: Connection, ids: Sequence[int], status: SummaryStatus) -> None:
    """Set the status of the summaries `ids`."""
    # One by one: they are few, mostly one, and for a list PostgreSQL plans anew each time.
    for summary_id in ids:
        connection.execute(_SET_STATUS, {"summary": summary_id, "became": status})


def revive_shown_by(connection: Connection, absorbed_by: int) -> None:
    """Mark as live the summaries of the markers that a summary has absorbed."""
    shown = select(Message.summary_id).where(
        Message.absorbed_by == absorbed_by, Message.summary_id.is_not(None)
    )
    connection.execute(
        update(Summary).where(Summary.id.in_(shown)).values(status=SummaryStatus.LIVE)
    )


def _record(row: RowMapping) -> SummaryRecord:
    return SummaryRecord(
        **{
            **row,
            "kind": SummaryKind(row["kind"]),
            "status": SummaryStatus(row["status"]),
        }
    )
