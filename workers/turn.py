"""The turn job: decides what a turn makes due (see docs/explanation/turn.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TypeAlias

from sqlalchemy import Connection

from storage import cursors, events, guards, jobs, sessions, signals
from storage.cursors import CursorName
from storage.events import Report
from storage.guards import GuardName, GuardRecord
from storage.jobs import Claim, DueJob, JobKind, JobState
from storage.micro_reads import MicroState
from storage.sessions import SessionRecord
from storage.signals import Signal, SignalKind
from workers import tracing
from workers.calibration import Calibration
from workers.compression_settings import CompressionSettings
from workers.due import (
    Load,
    Restraints,
    batch_due,
    codex_is_asked,
    micro_may_be_due,
    micro_may_run,
    present_turn,
    prune_due,
)
from workers.micro.plan import why_nothing_due
from workers.pruning.triggers import PRUNE_QUEUE, STRENGTH, PruneTrigger
from workers.reported import current_prompt, recalibrated
from workers.triggers import BATCH_QUEUE, RULES, Trigger
from workers.workshop import Workshop

MICRO_QUEUE = "micro"
MICRO_TRIGGER = "micro"

Around: TypeAlias = Callable[[Claim], AbstractContextManager[object]]


def _nothing(_claim: Claim) -> AbstractContextManager[object]:
    return nullcontext()


@dataclass(frozen=True, slots=True)
class TurnReport:
    """What is due now in a session about which it was decided, and the signals for gateways."""

    due: tuple[DueJob, ...] = ()
    signals: tuple[Signal, ...] = ()


@dataclass(frozen=True, slots=True)
class Decision:
    """What a session's turns make due.

    `report` is the newest unread usage report, `calibration` what follows from it. A batch pass
    covers what a micro pass would, so at most one of `batch` and `micro` is due; it prunes first
    itself, so `prune` is due without one alone. `codex` says that the gateway is to have Codex
    compact its thread. `checked` says that the rows were read and hold too little for a micro pass.
    """

    load: Load
    report: Report | None
    calibration: Calibration | None
    batch: Trigger | None
    micro: bool
    codex: bool
    prune: PruneTrigger | None = None
    checked: bool = False

    @property
    def turns(self) -> int:
        """Return how many turns the session had."""
        return self.load.session.turns

    @property
    def cursors(self) -> Mapping[CursorName, int]:
        """Return where the cursors of what was decided about stand afterwards."""
        turns = {CursorName.TURNS: self.turns}
        return turns if self.report is None else {**turns, CursorName.REPORTS: self.report.id}


def run_turns(
    shop: Workshop, claims: Sequence[Claim], within: Around = _nothing
) -> dict[int, TurnReport]:
    """Work claimed turn jobs of different sessions together; return the report of each, by job.

    Each gets one decision, whatever number of turns it stands for, and all are one transaction;
    `within` is entered around the writes of each. Nothing is stored for a job whose lease was lost.
    """
    database = shop.database
    with database.read() as connection:
        decisions = _decide_all(shop, connection, [claim.session_key for claim in claims])
    shop.reach("decided")
    emitted: dict[int, tuple[Signal, ...]] = {}
    with database.write() as connection:
        now = sessions.lock_many(connection, list(decisions))
        mine = jobs.finish_all(connection, database, claims)
        held = [claim for claim in claims if claim.job_id in mine]
        for claim in held:
            key = claim.session_key
            with within(claim):
                emitted[claim.job_id] = _carry_out(
                    shop, connection, now[key], decisions[key], _passed_on(claim)
                )
        carried = {claim.session_key: decisions[claim.session_key] for claim in held}
        # A turn that was closed since the read has set the job's `again`.
        sessions.note_decided(
            connection,
            {key: of.turns for key, of in carried.items()},
            checked={key: _checked_tokens(of, now[key]) for key, of in carried.items()},
        )
        cursors.move_many(connection, {key: of.cursors for key, of in carried.items()})
        shop.reach("before-commit")
        due = jobs.due_in_sessions(connection, database, list(carried))
    shop.reach("after-commit")
    shop.finished.note(job_id for job_id, state in mine.items() if state is JobState.DONE)
    lost = {claim.job_id: TurnReport() for claim in claims if claim.job_id not in mine}
    return lost | {
        claim.job_id: TurnReport(tuple(due[claim.session_key]), emitted[claim.job_id])
        for claim in held
    }


def _passed_on(claim: Claim) -> Mapping[str, str]:
    """Return the correlation of the jobs that a turn makes due: what caused the turn caused them,
    and their spans continue this one."""
    return {**claim.correlation, **tracing.carrier()}


def micro_is_due(session: SessionRecord, seen: int, settings: CompressionSettings) -> bool:
    """Return whether micro-compaction runs after one of the turns behind number `seen`."""
    every = max(1, settings.micro_compact_every_n_turns)
    return session.turns // every > seen // every


@dataclass(frozen=True, slots=True)
class _Stored:
    """A session as stored, besides its messages; `report` is its newest unread usage report."""

    session: SessionRecord
    cursors: Mapping[CursorName, int]
    guards: Mapping[GuardName, GuardRecord]
    report: Report | None

    @property
    def rested(self) -> bool:
        """Return whether a cooldown has ended since the last decision."""
        cooldown = self.guards.get(GuardName.COOLDOWN)
        return cooldown is not None and cooldown.is_over


def _decide_all(shop: Workshop, connection: Connection, keys: Sequence[int]) -> dict[int, Decision]:
    ones = sessions.fetch_many(connection, keys)
    at = cursors.read_many(connection, keys)
    held = guards.read_many(connection, shop.database, keys)
    reports = events.unread_reports(connection, keys)
    stored = {key: _Stored(one, at[key], held[key], reports.get(key)) for key, one in ones.items()}
    return {key: _decide(shop, connection, of) for key, of in stored.items()}


def _decide(shop: Workshop, connection: Connection, stored: _Stored) -> Decision:
    settings = shop.settings.current().compression
    session, report, rested = stored.session, stored.report, stored.rested
    seen = stored.cursors[CursorName.TURNS]
    under = Restraints(settings, stored.guards, shop.summariser.fingerprint)
    # During the cooldown its reports were read without any effect.
    again = rested and not report
    last = events.newest_report(connection, session.key, after=0) if again else report
    learned = recalibrated(report, session, settings) if report else None
    load = Load(
        session,
        learned or Calibration.of(session.calibration),
        current_prompt(last, session) if last else None,
        rested,
    )
    batch = batch_due(load, under)
    micro = (
        batch is None
        and (rested or micro_is_due(session, seen, settings))
        and micro_may_run(session, under)
        and micro_may_be_due(session, settings)
    )
    # Behind a pass that left little the count mostly tells; elsewhere a job might be for nothing.
    checked = (
        micro
        and session.checked_tokens is not None
        and _holds_too_little(connection, stored, settings)
    )
    prune = prune_due(load, under) if batch is None else None
    return Decision(
        load,
        report,
        learned,
        batch,
        micro and not checked,
        codex_is_asked(load, under),
        prune,
        checked,
    )


def _holds_too_little(
    connection: Connection, stored: _Stored, settings: CompressionSettings
) -> bool:
    state = MicroState(stored.session, stored.cursors[CursorName.MICRO], stored.guards)
    return why_nothing_due(connection, state, settings) is not None


def _checked_tokens(decision: Decision, now: SessionRecord) -> int | None:
    """Return the session's new `checked_tokens`, None where they stay; `now` is what it has become
    since it was read."""
    session = decision.load.session
    if not decision.checked or now.revision != session.revision:
        return None
    return session.unabsorbed_tokens


def _carry_out(
    shop: Workshop,
    connection: Connection,
    now: SessionRecord,
    decision: Decision,
    correlation: Mapping[str, str],
) -> tuple[Signal, ...]:
    """Write what was decided, whatever happened in between, and return its signals."""
    database, session = shop.database, decision.load.session
    # A change of model since the read has dropped what was learned.
    if decision.calibration is not None and now.revision == session.revision:
        sessions.calibrate(connection, now.key, decision.calibration.dump())
    if decision.batch is not None:
        jobs.make_due(
            connection,
            database,
            now.key,
            kind=JobKind.BATCH,
            queue=BATCH_QUEUE,
            trigger=decision.batch,
            strength=RULES[decision.batch].strength,
            ringing=True,
            correlation=correlation,
        )
    if decision.prune is not None:
        jobs.make_due(
            connection,
            database,
            now.key,
            kind=JobKind.PRUNE,
            queue=PRUNE_QUEUE,
            trigger=decision.prune,
            strength=STRENGTH[decision.prune],
            ringing=True,
            correlation=correlation,
        )
    if decision.micro:
        jobs.make_due(
            connection,
            database,
            now.key,
            kind=JobKind.MICRO,
            queue=MICRO_QUEUE,
            trigger=MICRO_TRIGGER,
            ringing=True,
            correlation=correlation,
        )
    if decision.load.rested:
        guards.clear_ended(connection, database, now.key, GuardName.COOLDOWN)
    if not decision.codex:
        return ()
    guards.put(
        connection, database, now.key, GuardName.THREAD_SIGNAL, subject=present_turn(session)
    )
    facts = {"turn": present_turn(session), "prompt_tokens": decision.load.prompt_tokens}
    return (
        signals.emit(connection, database, now.key, SignalKind.COMPACT_THREAD, facts, quiet=False),
    )
