"""What holds work of a session back, kept where every worker sees it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import Connection, delete, select

from storage.engine import Database, insert_into
from storage.models import Guard


class GuardName(StrEnum):
    MICRO_FAILURES = "micro_failures"
    """How often (`count`) the exchange that begins at position `subject` was answered badly."""
    ENDPOINT_FAILURES = "endpoint_failures"
    """How often in a row (`count`) the summariser could not be used at all."""
    DEFRAG_MARK = "defrag_mark"
    """Tokens (`subject`) above which the rolling summary is rewritten, raised after a rewrite
    that was not smaller."""
    UNDONE = "undone"
    """Number (`subject`) of closed turns at the last undo: automatic passes wait for more."""


@dataclass(frozen=True, slots=True)
class GuardRecord:
    count: int
    subject: int | None


def read_all(connection: Connection, key: int) -> dict[GuardName, GuardRecord]:
    """Every guard of a session that this version knows."""
    found = connection.execute(
        select(Guard.name, Guard.count, Guard.subject).where(
            Guard.session_key == key, Guard.name.in_(list(GuardName))
        )
    )
    return {GuardName(name): GuardRecord(count, subject) for name, count, subject in found}


def put(
    connection: Connection,
    database: Database,
    key: int,
    name: GuardName,
    *,
    count: int = 0,
    subject: int | None = None,
    detail: str | None = None,
) -> None:
    """Set a guard."""
    values = {"count": count, "subject": subject, "detail": detail, "updated_at": database.now()}
    connection.execute(
        insert_into(connection, Guard)
        .values(session_key=key, name=name, **values)
        .on_conflict_do_update(index_elements=[Guard.session_key, Guard.name], set_=values)
    )


def clear(connection: Connection, key: int, *names: GuardName) -> None:
    """Take guards away."""
    connection.execute(delete(Guard).where(Guard.session_key == key, Guard.name.in_(names)))
