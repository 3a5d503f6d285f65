"""Compact sessions that nobody writes to, so that no user waits for it (ENGINE.md §9, row 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from sqlalchemy import Connection

from storage import guards, jobs, overdue, sessions
from storage.jobs import JobKind
from storage.models import BULK_QUEUE
from storage.overdue import Place
from storage.sessions import SessionRecord
from workers.calibration import Calibration
from workers.due import Restraints
from workers.holds import held_back
from workers.limits import session_threshold
from workers.managed import managed_by
from workers.runtime.context import Workshop
from workers.settings import CompressionSettings
from workers.threshold import NoUsableWindowError
from workers.triggers import RULES, Trigger

FLOOR_TOKENS = 64_000
"""Size from which an idle session is worth a pass, where its threshold is not below it."""

MOST_AT_ONCE = 2_000
"""Passes that one scan makes due at the most."""

MOST_WAITING = 1_000
"""Bulk jobs that wait for their turn, from which on idle ones are not added."""

_PAGE = 200
_PAGES = 50


class Look(Enum):
    """What a look at an idle session comes to."""

    DUE = auto()
    NOT_DUE = auto()
    """Too small, compacted by somebody else, or held back by what only activity ends."""
    HELD = auto()
    """Held back for a time: it is looked at again, for a skipped pass changes nothing (F251)."""


@dataclass(frozen=True, slots=True)
class IdleScan:
    """How many idle sessions were looked at, and of how many a pass was made due."""

    looked_at: int = 0
    due: int = 0


def scan_idle(shop: Workshop) -> IdleScan:
    """Make a batch pass due for every session that has become idle and is large enough; the next
    reconcilers ring for them, a few at a time: nobody waits for them, so they are bulk work.

    A session is looked at once each time that it becomes idle, by what is stored of its activity,
    so neither restarts nor several scanners repeat a pass. One that has ended is left alone: nobody
    is to come back to it, and if somebody does, it becomes idle anew.
    """
    settings = shop.settings.current().compression
    wait_ms = int(1000 * settings.idle_compact_after_seconds)
    if not wait_ms or not settings.enabled:
        return IdleScan()
    database = shop.database
    with database.read() as connection:
        waiting = jobs.count_bulk(connection, at_most=MOST_WAITING)
    if waiting >= MOST_WAITING:
        return IdleScan()
    looked_at = due = 0
    last = Place()
    for _ in range(_PAGES):
        with database.read() as connection:
            page = overdue.idle(connection, database, idle_ms=wait_ms, after=last, limit=_PAGE)
            looks = _look(shop, settings, connection, [place.key for place in page])
        wanted = [place.key for place in page if looks[place.key] is Look.DUE]
        seen = [place for place in page if looks[place.key] is not Look.HELD]
        if seen:
            _make_due(shop, wanted, seen)
        looked_at, due = looked_at + len(page), due + len(wanted)
        if len(page) < _PAGE or due >= MOST_AT_ONCE:
            break
        last = page[-1]
    return IdleScan(looked_at, due)


def idle_look(session: SessionRecord, under: Restraints) -> Look:
    """Whether an idle session is to be compacted."""
    if managed_by(session, under.settings) is not None:
        return Look.NOT_DUE
    try:
        threshold = session_threshold(session, under.settings).tokens
    except NoUsableWindowError:
        return Look.NOT_DUE
    estimate = Calibration.of(session.calibration).estimate(session.live_tokens)
    if estimate < min(FLOOR_TOKENS, threshold):
        return Look.NOT_DUE
    hold = held_back(
        RULES[Trigger.IDLE],
        under.guards,
        session=session,
        settings=under.settings,
        fingerprint=under.fingerprint,
    )
    if hold is None:
        return Look.DUE
    return Look.HELD if hold.left_ms else Look.NOT_DUE


def _look(
    shop: Workshop, settings: CompressionSettings, connection: Connection, keys: Sequence[int]
) -> dict[int, Look]:
    """Look at the sessions of a page."""
    held = guards.read_many(connection, shop.database, keys)
    fingerprint = shop.summariser.fingerprint
    return {
        key: idle_look(session, Restraints(settings, held[key], fingerprint))
        for key, session in sessions.fetch_many(connection, keys).items()
    }


def _make_due(shop: Workshop, wanted: Sequence[int], seen: Sequence[Place]) -> None:
    database = shop.database
    with database.write() as connection:
        # In one order, so that two scans never wait for each other crosswise.
        for key in sorted(wanted):
            jobs.make_due(
                connection,
                database,
                key,
                kind=JobKind.BATCH,
                queue=BULK_QUEUE,
                trigger=Trigger.IDLE,
                strength=RULES[Trigger.IDLE].strength,
            )
        overdue.note_idle_look(connection, seen)
