"""The turn job: decides what a finished turn makes due (ENGINE.md §9)."""

from __future__ import annotations

from dataclasses import dataclass

from storage import cursors, jobs, sessions
from storage.cursors import CursorName
from storage.errors import FenceLost
from storage.jobs import Claim, DueJob, JobKind
from storage.sessions import SessionRecord
from workers.compression_settings import CompressionSettings
from workers.micro.plan import why_nothing_due
from workers.workshop import Workshop

MICRO_QUEUE = "micro"
MICRO_TRIGGER = "micro"


@dataclass(frozen=True, slots=True)
class TurnReport:
    """How many closed turns were looked at, and what is due now in their session."""

    turns: int
    due: tuple[DueJob, ...]


def run_turn(shop: Workshop, claim: Claim) -> TurnReport:
    """Work a claimed turn job: one decision, whatever number of turns it stands for."""
    database, key = shop.database, claim.session_key
    settings = shop.settings.current().compression
    with database.read() as connection:
        session = sessions.fetch(connection, key)
        seen = cursors.read(connection, key, CursorName.TURNS)
        due_micro = micro_is_due(session, seen, settings) and not why_nothing_due(
            connection, key, settings
        )
    try:
        with database.write() as connection:
            sessions.lock(connection, key)
            jobs.check_fence(connection, claim)
            if due_micro:
                jobs.make_due(
                    connection,
                    database,
                    key,
                    kind=JobKind.MICRO,
                    queue=MICRO_QUEUE,
                    trigger=MICRO_TRIGGER,
                    ringing=True,
                )
            # A turn that was closed since the read has set the job's `again`.
            cursors.move(connection, key, CursorName.TURNS, session.turns)
            jobs.finish(connection, database, claim)
            shop.reach("before-commit")
            due = tuple(jobs.due_in_session(connection, database, key))
        shop.reach("after-commit")
    except FenceLost:
        return TurnReport(0, ())
    return TurnReport(session.turns - seen, due)


def micro_is_due(session: SessionRecord, seen: int, settings: CompressionSettings) -> bool:
    """Whether one of the turns after number `seen` is one after which micro-compaction runs."""
    if not (settings.enabled and settings.micro_compact):
        return False
    every = max(1, settings.micro_compact_every_n_turns)
    return session.turns // every > seen // every
