"""Forget records that nobody needs any more, in short transactions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from storage import retention
from storage.engine import Database
from storage.retention import Page
from workers.workshop import Workshop

SLOTS_MS = 86_400_000
"""How long ticks of the schedule are remembered: far longer than a tick may come late."""

_DAY_MS = 86_400_000
_PAGE = 200
_PAGES = 500
"""So that one round deletes 100,000 rows of a kind at the most."""


@dataclass(frozen=True, slots=True)
class Forgotten:
    """How many rows of each kind were deleted."""

    jobs: int = 0
    attempts: int = 0
    signals: int = 0
    answers: int = 0
    slots: int = 0

    @property
    def rows(self) -> int:
        return self.jobs + self.attempts + self.signals + self.answers + self.slots


def forget(shop: Workshop) -> Forgotten:
    """Delete what is older than block `retention` of the settings says.

    What is part of a conversation stays as long as its session: messages, summaries, and events
    too, since the same event may be sent again at any time (ARCHITECTURE.md, *Delivery*). Their
    usage is a few numbers, and the last one decides about its session after a cooldown.
    """
    days, database = shop.settings.current().retention, shop.database
    return Forgotten(
        jobs=_in_order(database, retention.forget_jobs, days.jobs_days),
        attempts=_in_order(database, retention.forget_attempts, days.attempts_days),
        signals=_in_order(database, retention.forget_signals, days.signals_days),
        answers=_any(database, retention.forget_answers, int(_DAY_MS * days.answers_days)),
        slots=_any(database, retention.forget_slots, SLOTS_MS),
    )


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
