"""Delete records whose retention has expired, in short transactions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, astuple, dataclass

from storage import audit, maintenance
from storage.audit import AuditAction
from storage.engine import Database
from storage.maintenance import Page
from workers.runtime.context import WorkerContext
from workers.telemetry.tally import count_tries

SLOTS_MS = 86_400_000
"""How long ticks of the schedule are kept: far longer than a tick may be late."""

_DAY_MS = 86_400_000
_PAGE = 200
_PAGES = 500
"""Limits one round to 100,000 rows of a kind."""
_SESSIONS = 20
"""Sessions whose events are deleted in one transaction: each may have thousands."""


@dataclass(frozen=True, slots=True)
class Deleted:
    """Counts of deleted rows of each kind."""

    jobs: int = 0
    attempts: int = 0
    signals: int = 0
    answers: int = 0
    events: int = 0
    slots: int = 0
    audit: int = 0

    @property
    def rows(self) -> int:
        return sum(astuple(self))


def delete_expired(context: WorkerContext) -> Deleted:
    """Delete what is older than the `retention` settings allow.

    Conversations stay: messages and summaries. Events stay while their session is open, since the
    same event may be sent again at any time, and for a while after it has ended.
    """
    days, database = context.settings.current().retention, context.database
    # Attempts have to be in the totals before their records are deleted.
    count_tries(database)
    deleted = Deleted(
        jobs=_in_order(database, maintenance.forget_jobs, days.jobs_days),
        attempts=_in_order(database, maintenance.forget_attempts, days.attempts_days),
        signals=_in_order(database, maintenance.forget_signals, days.signals_days),
        answers=_any(database, maintenance.forget_answers, int(_DAY_MS * days.answers_days)),
        events=_events(database, int(_DAY_MS * days.events_days)),
        slots=_any(database, maintenance.forget_slots, SLOTS_MS),
        audit=_in_order(database, maintenance.forget_audit, days.audit_days)
        if days.audit_days
        else 0,
    )
    gone = {kind: rows for kind, rows in asdict(deleted).items() if rows and kind != "slots"}
    if gone:
        with database.write() as connection:
            audit.record(connection, database, AuditAction.DELETED, actor=context.actor, facts=gone)
    return deleted


def _in_order(database: Database, forget_page: Callable[..., Page], days: float) -> int:
    deleted, last = 0, 0
    for _ in range(_PAGES):
        with database.write() as connection:
            page = forget_page(
                connection, database, older_ms=int(_DAY_MS * days), after=last, limit=_PAGE
            )
        deleted += page.deleted
        if page.last is None:
            break
        last = page.last
    return deleted


def _any(database: Database, forget_page: Callable[..., int], older_ms: int) -> int:
    deleted = 0
    for _ in range(_PAGES):
        with database.write() as connection:
            gone = forget_page(connection, database, older_ms=older_ms, limit=_PAGE)
        deleted += gone
        if gone < _PAGE:
            break
    return deleted


def _events(database: Database, older_ms: int) -> int:
    deleted = 0
    for _ in range(_PAGES):
        with database.read() as connection:
            keys = maintenance.ended_sessions(
                connection, database, older_ms=older_ms, limit=_SESSIONS
            )
        if keys:
            with database.write() as connection:
                deleted += maintenance.forget_events(connection, keys)
        if len(keys) < _SESSIONS:
            break
    return deleted
