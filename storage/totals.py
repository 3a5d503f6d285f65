"""Figures that only grow: counted once from the records of tries, and kept when those are gone.

Everything up to the mark is counted in `totals`, everything behind it is still to be read from the
records. A try gets its number before its transaction commits, so numbers that are young are left
alone: one that is lower may show up yet.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from sqlalchemy import Connection, select, update

from storage.engine import Database, insert_into
from storage.models import Attempt, Total

Series: TypeAlias = tuple[str, tuple[str, ...]]
"""A figure's name and the values of its labels."""

SETTLED_MS = 120_000
"""How old a record is when no other with a lower number can show up any more: far longer than a
transaction of ours lasts, which the server ends after half a minute of silence."""

_MARK: Series = ("attempts_counted", ())


@dataclass(frozen=True, slots=True)
class Try:
    """What figures are counted from. Durations in milliseconds."""

    id: int
    kind: str
    trigger: str
    outcome: str
    error_class: str | None
    model: str
    requests: int
    prompt_tokens: int | None
    completion_tokens: int | None
    tokens_before: int
    tokens_after: int
    total_ms: int
    model_ms: int


_COLUMNS = tuple(getattr(Attempt, name) for name in Try.__dataclass_fields__)


def read(connection: Connection) -> tuple[dict[Series, int], int]:
    """Everything that is counted, and the number of the last try that it is counted from."""
    rows = connection.execute(select(Total.name, Total.labels, Total.value))
    found = {(name, tuple(json.loads(labels))): value for name, labels, value in rows}
    return found, found.pop(_MARK, 0)


def read_mark(connection: Connection) -> int:
    """The number of the last try that is counted."""
    name, labels = _MARK
    found = connection.execute(
        select(Total.value).where(Total.name == name, Total.labels == json.dumps(labels))
    )
    return found.scalar() or 0


def hold_mark(connection: Connection) -> int:
    """Keep others who count from doing so until the transaction ends; gives the mark."""
    return _add(connection, _MARK, 0)


def uncounted(connection: Connection, *, after: int, limit: int | None = None) -> list[Try]:
    """Tries whose number is above `after`, oldest first."""
    rows = connection.execute(
        select(*_COLUMNS).where(Attempt.id > after).order_by(Attempt.id).limit(limit)
    )
    return [Try(*row) for row in rows]


def settled(connection: Connection, database: Database, *, after: int, limit: int) -> list[Try]:
    """Of the first `limit` tries above `after` those up to the first young one."""
    young = Attempt.created_at > database.now() - SETTLED_MS
    rows = connection.execute(
        select(young, *_COLUMNS).where(Attempt.id > after).order_by(Attempt.id).limit(limit)
    )
    found: list[Try] = []
    for is_young, *columns in rows:
        if is_young:
            break
        found.append(Try(*columns))
    return found


def add(connection: Connection, counted: Mapping[Series, int], *, up_to: int) -> None:
    """Add figures, and move the mark to the number of the last try that they are counted from.

    The caller holds the mark.
    """
    for series in sorted(counted):
        _add(connection, series, counted[series])
    name, labels = _MARK
    connection.execute(
        update(Total)
        .where(Total.name == name, Total.labels == json.dumps(labels))
        .values(value=up_to)
    )


def _add(connection: Connection, series: Series, value: int) -> int:
    name, labels = series
    new = insert_into(connection, Total).values(name=name, labels=json.dumps(labels), value=value)
    added: int = connection.execute(
        new.on_conflict_do_update(
            index_elements=[Total.name, Total.labels],
            set_={"value": Total.value + new.excluded.value},
        ).returning(Total.value)
    ).scalar_one()
    return added
