"""The turn job: decides which passes are due after a turn (see docs/explanation/turn.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TypeAlias

from sqlalchemy import Connection

from storage import guards, jobs, signals
from storage.conversations import cursors, events, sessions
from storage.conversations.cursors import CursorName
from storage.conversations.events import Report
from storage.conversations.micro_reads import MicroState
from storage.conversations.sessions import SessionRecord
from storage.guards import GuardName, GuardRecord
from storage.jobs import Claim, DueJob, JobKind, JobState
from storage.signals import Signal, SignalKind
from workers.micro.plan import why_nothing_due
from workers.policy.calibration import Calibration, current_prompt, recalibrated
from workers.policy.triggers import BATCH_QUEUE, RULES, Trigger
from workers.prune.commit import PRIORITY, PRUNE_QUEUE, PruneTrigger
from workers.runtime.context import WorkerContext
from workers.settings import CompressionSettings
from workers.telemetry import tracing
from workers.turn.due import (
    Load,
    Restraints,
    batch_due,
    codex_is_asked,
    micro_may_be_due,
    micro_may_run,
    present_turn,
    prune_due,
)

MICRO_QUEUE = "micro"
MICRO_TRIGGER = "micro"

Around: TypeAlias = Callable[[Claim], AbstractContextManager[object]]


def _nothing(_claim: Claim) -> AbstractContextManager[object]:
    return nullcontext()


@dataclass(frozen=True, slots=True)
class TurnReport:
    """The jobs now due in a session, and the signals emitted for gateways."""

    due: tuple[DueJob, ...] = ()
    signals: tuple[Signal, ...] = ()


@dataclass(frozen=True, slots=True)
class Decision:
    """What is due after a session's turns.

    `report` is the newest unread usage report, `calibration` what was learned from it. A batch pass
    covers what a micro pass would do and prunes first, so `micro` and `prune` are due only without
    `batch`. `codex` says that the gateway has to ask Codex to compact its thread. `checked` says
    that the rows were read and are too few for a micro pass.
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
        """Turns that the session had."""
        return self.load.session.turns

    @property
    def cursors(self) -> Mapping[CursorName, int]:
        """Positions of the turn and report cursors after this decision."""
        turns = {CursorName.TURNS: self.turns}
        return turns if self.report is None else {**turns, CursorName.REPORTS: self.report.id}


def run_turns(
    context: WorkerContext, claims: Sequence[Claim], within: Around = _nothing
) -> dict[int, TurnReport]:
    """Work claimed turn jobs of different sessions together; return the report of each, by job id.

    Each job gets one decision for all its turns, and all are written in one transaction; `within`
    is entered around the writes of each. Nothing is stored for a job whose lease was lost.
    """
    database = context.database
    with database.read() as connection:
        decisions = _decide_all(context, connection, [claim.session_key for claim in claims])
    context.failpoint("decided")
    emitted: dict[int, tuple[Signal, ...]] = {}
    with database.write() as connection:
        now = sessions.lock_many(connection, list(decisions))
        mine = jobs.finish_all(connection, database, claims)
        kept = [claim for claim in claims if claim.job_id in mine]
        for claim in kept:
            key = claim.session_key
            with within(claim):
                emitted[claim.job_id] = _carry_out(
                    context, connection, now[key], decisions[key], _correlation(claim)
                )
        written = {claim.session_key: decisions[claim.session_key] for claim in kept}
        # A turn that was closed since the read has set the job's `again`.
        sessions.note_decided(
            connection,
            {key: of.turns for key, of in written.items()},
            checked={key: _checked_tokens(of, now[key]) for key, of in written.items()},
        )
        cursors.move_many(connection, {key: of.cursors for key, of in written.items()})
        context.failpoint("before-commit")
        due = jobs.due_in_sessions(connection, database, list(written))
    context.failpoint("after-commit")
    context.finished.note(job_id for job_id, state in mine.items() if state is JobState.DONE)
    lost = {claim.job_id: TurnReport() for claim in claims if claim.job_id not in mine}
    return lost | {
        claim.job_id: TurnReport(tuple(due[claim.session_key]), emitted[claim.job_id])
        for claim in kept
    }


def _correlation(claim: Claim) -> Mapping[str, str]:
    """Return the correlation for the jobs that a turn enqueues: they have the turn's cause, and
    their spans continue this one."""
    return {**claim.correlation, **tracing.carrier()}


def micro_is_due(session: SessionRecord, seen: int, settings: CompressionSettings) -> bool:
    """Return whether micro-compaction runs after one of the turns since number `seen`."""
    every = max(1, settings.micro_compact_every_n_turns)
    return session.turns // every > seen // every


@dataclass(frozen=True, slots=True)
class _Stored:
    """A stored session without its messages; `report` is its newest unread usage report."""

    session: SessionRecord
    cursors: Mapping[CursorName, int]
    guards: Mapping[GuardName, GuardRecord]
    report: Report | None

    @property
    def rested(self) -> bool:
        """Whether a cooldown has ended since the last decision."""
        cooldown = self.guards.get(GuardName.COOLDOWN)
        return cooldown is not None and cooldown.is_over


def _decide_all(
    context: WorkerContext, connection: Connection, keys: Sequence[int]
) -> dict[int, Decision]:
    ones = sessions.fetch_many(connection, keys)
    at = cursors.read_many(connection, keys)
    found = guards.read_many(connection, context.database, keys)
    reports = events.unread_reports(connection, keys)
    stored = {key: _Stored(one, at[key], found[key], reports.get(key)) for key, one in ones.items()}
    return {key: _decide(context, connection, of) for key, of in stored.items()}


def _decide(context: WorkerContext, connection: Connection, stored: _Stored) -> Decision:
    settings = context.settings.current().compression
    session, report, rested = stored.session, stored.report, stored.rested
    seen = stored.cursors[CursorName.TURNS]
    under = Restraints(settings, stored.guards, context.summariser.fingerprint)
    # Reports that were read during the cooldown had no effect.
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
    # After a pass that left little behind, the count alone mostly tells right; elsewhere the rows
    # are read first, so that no job is enqueued that finds nothing.
    checked = (
        micro
        and session.checked_tokens is not None
        and _has_too_little(connection, stored, settings)
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


def _has_too_little(connection: Connection, stored: _Stored, settings: CompressionSettings) -> bool:
    state = MicroState(stored.session, stored.cursors[CursorName.MICRO], stored.guards)
    return why_nothing_due(connection, state, settings) is not None


def _checked_tokens(decision: Decision, now: SessionRecord) -> int | None:
    """Return the session's new `checked_tokens`, None if unchanged; `now` is the session as it is
    now, after the read."""
    session = decision.load.session
    if not decision.checked or now.revision != session.revision:
        return None
    return session.unabsorbed_tokens


def _carry_out(
    context: WorkerContext,
    connection: Connection,
    now: SessionRecord,
    decision: Decision,
    correlation: Mapping[str, str],
) -> tuple[Signal, ...]:
    """Write a decision, even if the session has changed since, and return its signals."""
    database, session = context.database, decision.load.session
    # A change of model since the read has dropped what was learned.
    if decision.calibration is not None and now.revision == session.revision:
        sessions.calibrate(connection, now.key, decision.calibration.dump())
    if decision.batch is not None:
        jobs.enqueue(
            connection,
            database,
            now.key,
            kind=JobKind.BATCH,
            queue=BATCH_QUEUE,
            trigger=decision.batch,
            priority=RULES[decision.batch].priority,
            notified=True,
            correlation=correlation,
        )
    if decision.prune is not None:
        jobs.enqueue(
            connection,
            database,
            now.key,
            kind=JobKind.PRUNE,
            queue=PRUNE_QUEUE,
            trigger=decision.prune,
            priority=PRIORITY[decision.prune],
            notified=True,
            correlation=correlation,
        )
    if decision.micro:
        jobs.enqueue(
            connection,
            database,
            now.key,
            kind=JobKind.MICRO,
            queue=MICRO_QUEUE,
            trigger=MICRO_TRIGGER,
            notified=True,
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
