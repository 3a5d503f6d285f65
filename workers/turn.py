"""The turn job: decides what a turn makes due (ENGINE.md §9)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlalchemy import Connection

from storage import cursors, events, guards, jobs, sessions, signals
from storage.cursors import CursorName
from storage.errors import FenceLost
from storage.events import Report
from storage.guards import GuardName
from storage.jobs import Claim, DueJob, JobKind
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
    micro_may_run,
    present_turn,
    prune_due,
)
from workers.micro.plan import Situation, why_nothing_due
from workers.pruning.triggers import PRUNE_QUEUE, STRENGTH, PruneTrigger
from workers.reported import current_prompt, recalibrated
from workers.triggers import BATCH_QUEUE, RULES, Trigger
from workers.workshop import Workshop

MICRO_QUEUE = "micro"
MICRO_TRIGGER = "micro"


@dataclass(frozen=True, slots=True)
class TurnReport:
    """How many closed turns were looked at, what is due now in their session, and what gateways
    are told."""

    turns: int
    due: tuple[DueJob, ...]
    signals: tuple[Signal, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class Decision:
    """What a look at a session came to.

    `seen` is the number of the last turn that was decided about before, `report` the newest usage
    report since the last look and `calibration` what it taught. A batch pass covers what a micro
    pass would, so at most one of `batch` and `micro` is due; it prunes first itself, so `prune` is
    due without one alone. `codex` says that the gateway is to have Codex compact its thread.
    """

    load: Load
    seen: int
    report: Report | None
    calibration: Calibration | None
    batch: Trigger | None
    micro: bool
    codex: bool
    prune: PruneTrigger | None = None


def run_turn(shop: Workshop, claim: Claim) -> TurnReport:
    """Work a claimed turn job: one decision, whatever number of turns it stands for."""
    database, key = shop.database, claim.session_key
    with database.read() as connection:
        decision = _decide(shop, connection, key)
    shop.reach("decided")
    try:
        with database.write() as connection:
            session = sessions.lock_decided(connection, key, decision.load.session.turns)
            # It says whether the job is still this holder's; if not, nothing of this is stored.
            jobs.finish(connection, database, claim)
            told = _carry_out(shop, connection, session, decision, _passed_on(claim))
            # A turn that was closed since the read has set the job's `again`.
            looked = {CursorName.TURNS: decision.load.session.turns}
            if decision.report is not None:
                looked[CursorName.REPORTS] = decision.report.id
            cursors.move_all(connection, key, looked)
            if decision.load.rested:
                guards.clear_ended(connection, database, key, GuardName.COOLDOWN)
            shop.reach("before-commit")
            due = tuple(jobs.due_in_session(connection, database, key))
        shop.reach("after-commit")
    except FenceLost:
        return TurnReport(0, ())
    return TurnReport(decision.load.session.turns - decision.seen, due, told)


def _passed_on(claim: Claim) -> Mapping[str, str]:
    """What caused the turn's job caused what it makes due; its span goes on from this one's."""
    return {**claim.correlation, **tracing.carrier()}


def micro_is_due(session: SessionRecord, seen: int, settings: CompressionSettings) -> bool:
    """Whether one of the turns after number `seen` is one after which micro-compaction runs."""
    every = max(1, settings.micro_compact_every_n_turns)
    return session.turns // every > seen // every


def _decide(shop: Workshop, connection: Connection, key: int) -> Decision:
    settings = shop.settings.current().compression
    session = sessions.fetch(connection, key)
    at = cursors.read_all(connection, key)
    seen = at[CursorName.TURNS]
    held = guards.read_all(connection, shop.database, key)
    under = Restraints(settings, held, shop.summariser.fingerprint)
    cooldown = held.get(GuardName.COOLDOWN)
    rested = cooldown is not None and cooldown.is_over
    report = events.newest_report(connection, key, after=at[CursorName.REPORTS])
    # While it rested, its reports were read and nothing came of them.
    last = events.newest_report(connection, key, after=0) if rested and not report else report
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
        and not why_nothing_due(
            connection, Situation(session, at[CursorName.MICRO], held), settings
        )
    )
    prune = prune_due(load, under) if batch is None else None
    return Decision(load, seen, report, learned, batch, micro, codex_is_asked(load, under), prune)


def _carry_out(
    shop: Workshop,
    connection: Connection,
    now: SessionRecord,
    decision: Decision,
    correlation: Mapping[str, str],
) -> tuple[Signal, ...]:
    """Write what was decided, whatever came in between; gives the signals of it."""
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
    if not decision.codex:
        return ()
    guards.put(
        connection, database, now.key, GuardName.THREAD_SIGNAL, subject=present_turn(session)
    )
    facts = {"turn": present_turn(session), "prompt_tokens": decision.load.prompt_tokens}
    return (
        signals.emit(connection, database, now.key, SignalKind.COMPACT_THREAD, facts, quiet=False),
    )
