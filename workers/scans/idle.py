"""Compact idle sessions, so that no user waits for that later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from sqlalchemy import Connection

from storage import guards, jobs, scheduling
from storage.conversations import sessions
from storage.conversations.sessions import SessionRecord
from storage.jobs import JobKind
from storage.models import BULK_QUEUE
from storage.scheduling import Place
from workers.policy.calibration import Calibration
from workers.policy.guards import suppressed_by
from workers.policy.threshold import NoUsableWindowError, managed_by, session_threshold
from workers.policy.triggers import RULES, Trigger
from workers.runtime.context import WorkerContext
from workers.settings.compression import CompressionSettings
from workers.turn.due import Restraints

FLOOR_TOKENS = 64_000
"""Size at which an idle session is worth a pass, unless its threshold is lower."""

MOST_AT_ONCE = 2_000
"""Number of enqueued passes at which a scan ends."""

MOST_WAITING = 1_000
"""Number of waiting bulk jobs at which no idle ones are added."""

_PAGE = 200
_PAGES = 50


class IdleCheck(Enum):
    """Result of checking an idle session."""

    DUE = auto()
    NOT_DUE = auto()
    """Too small, compacted by the provider, or suppressed until there is activity."""
    SUPPRESSED = auto()
    """Suppressed for a time: it is checked again, even if it does not change."""


@dataclass(frozen=True, slots=True)
class IdleScan:
    """Counts of idle sessions that were checked, and of those for which a pass was enqueued."""

    checked: int = 0
    enqueued: int = 0


def scan_idle(context: WorkerContext) -> IdleScan:
    """Enqueue a batch pass for every session that has become idle and is large enough. No user
    waits for these passes, so they are bulk work: the reconciler notifies a few at a time.

    A session is checked once each time it becomes idle, judged by its stored activity, so neither
    restarts nor several scanners repeat a pass. An ended session is left alone: nobody is expected
    to come back to it, and if somebody does, it becomes idle again.
    """
    settings = context.settings.current().compression
    wait_ms = int(1000 * settings.idle_compact_after_seconds)
    if not wait_ms or not settings.enabled:
        return IdleScan()
    database = context.database
    with database.read() as connection:
        waiting = jobs.count_bulk(connection, at_most=MOST_WAITING)
    if waiting >= MOST_WAITING:
        return IdleScan()
    checked = enqueued = 0
    last = Place()
    for _ in range(_PAGES):
        with database.read() as connection:
            page = scheduling.idle(connection, database, idle_ms=wait_ms, after=last, limit=_PAGE)
            checks = _check(context, settings, connection, [place.key for place in page])
        wanted = [place.key for place in page if checks[place.key] is IdleCheck.DUE]
        done = [place for place in page if checks[place.key] is not IdleCheck.SUPPRESSED]
        if done:
            _enqueue(context, wanted, done)
        checked, enqueued = checked + len(page), enqueued + len(wanted)
        if len(page) < _PAGE or enqueued >= MOST_AT_ONCE:
            break
        last = page[-1]
    return IdleScan(checked, enqueued)


def check_idle(session: SessionRecord, under: Restraints) -> IdleCheck:
    """Decide whether to compact an idle session."""
    if managed_by(session, under.settings) is not None:
        return IdleCheck.NOT_DUE
    try:
        threshold = session_threshold(session, under.settings).tokens
    except NoUsableWindowError:
        return IdleCheck.NOT_DUE
    estimate = Calibration.of(session.calibration).estimate(session.live_tokens)
    if estimate < min(FLOOR_TOKENS, threshold):
        return IdleCheck.NOT_DUE
    suppression = suppressed_by(
        RULES[Trigger.IDLE],
        under.guards,
        session=session,
        settings=under.settings,
        fingerprint=under.fingerprint,
    )
    if suppression is None:
        return IdleCheck.DUE
    return IdleCheck.SUPPRESSED if suppression.left_ms else IdleCheck.NOT_DUE


def _check(
    context: WorkerContext,
    settings: CompressionSettings,
    connection: Connection,
    keys: Sequence[int],
) -> dict[int, IdleCheck]:
    """Check the sessions of a page."""
    guards_of = guards.read_many(connection, context.database, keys)
    fingerprint = context.summariser.fingerprint
    return {
        key: check_idle(session, Restraints(settings, guards_of[key], fingerprint))
        for key, session in sessions.fetch_many(connection, keys).items()
    }


def _enqueue(context: WorkerContext, wanted: Sequence[int], done: Sequence[Place]) -> None:
    database = context.database
    with database.write() as connection:
        # Sorted, so that two scans never deadlock.
        for key in sorted(wanted):
            jobs.enqueue(
                connection,
                database,
                key,
                kind=JobKind.BATCH,
                queue=BULK_QUEUE,
                trigger=Trigger.IDLE,
                priority=RULES[Trigger.IDLE].priority,
            )
        scheduling.note_idle_look(connection, done)
