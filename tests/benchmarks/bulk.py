"""How long live turns wait for their pass while thousands of old sessions are re-compacted."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from statistics import quantiles

from producers import Session
from producers.importing import Account, Terms
from producers.importing.admission import admit
from producers.importing.source import SourceRow, SourceSession
from storage import bulk_runs, jobs
from storage.bulk_runs import Filters, RunState
from storage.engine import Database
from tasks.publishing import notify
from tests.benchmarks.crew import THREADS, WORKERS, Crew, crew
from tests.benchmarks.figure import Figure
from tests.benchmarks.scale import Scale
from tests.benchmarks.stage import Stage
from tests.support.sessions.conversations import turn
from workers.policy.threshold import DEFAULT_WINDOW
from workers.scans import recompaction
from workers.settings import WorkerSettings

MOST_RATIO = 2.0
"""Bar of the p95."""

BLOCKS = 4
"""Times that the run is let go on and stopped again, so that what else the machine does hits both
sides alike."""

_WORDS = 480
_TURNS = 24
_OLD_TURNS = 12
_OLD_WINDOW = 8_000
_ACTOR = "benchmark"
_LOOK_SECONDS = 0.001
_SECONDS = 60.0
_AT_ONCE = WorkerSettings().bulk_at_once


def live_turns_beside_bulk(stage: Stage, scale: Scale) -> Iterator[Figure]:
    """Measure `finalize_turn` to the committed micro pass, while a bulk run goes on and while it is
    stopped. The summariser takes no time, so bulk work takes as much of the machine as it ever
    can."""
    with stage.database("postgresql") as url, crew(stage, url) as workers:
        database = workers.play.database
        _old_sessions(database, scale.old_sessions)
        [session] = workers.open_sessions(
            1, context_window=DEFAULT_WINDOW, turns=_TURNS, words=_WORDS
        )
        for _ in range(scale.warm_up):
            _compacted(workers, session)
        alone: list[float] = []
        beside: list[float] = []
        run_id = _begin(database)
        recompaction.stop(database, run_id, actor=_ACTOR)
        for _ in range(BLOCKS):
            alone += [_compacted(workers, session) for _ in range(scale.rounds)]
            with suppress(recompaction.RunStateError):
                # Of a few sessions each may be settled already.
                recompaction.resume(database, run_id, actor=_ACTOR)
                _go_on(workers, database)
            beside += [_compacted(workers, session) for _ in range(scale.rounds)]
            with suppress(recompaction.RunStateError):
                recompaction.stop(database, run_id, actor=_ACTOR)
        with database.read() as connection:
            done = bulk_runs.tally(connection, run_id)
            state = bulk_runs.fetch(connection, run_id).state
    over = " (all before the end)" if state is RunState.DONE else ""
    yield Figure(
        f"live turns to their micro pass beside a bulk run of {scale.old_sessions:,}, p95 / alone",
        "postgresql",
        _p95(beside) / _p95(alone),
        "x",
        bar=MOST_RATIO,
        detail=f"{_p95(beside):.0f} / {_p95(alone):.0f} ms, {len(beside)} turns each; "
        f"{done.settled:,} old sessions meanwhile{over}, {WORKERS} processes of {THREADS} threads",
    )


def _old_sessions(database: Database, number: int) -> None:
    rows = tuple(
        SourceRow(place, message)
        for place, message in enumerate(
            message for at in range(_OLD_TURNS) for message in turn(at, words=_WORDS)
        )
    )
    terms = Terms("old", _ACTOR, source="old", context_window=_OLD_WINDOW, undated_ms=10**12)
    for place in range(number):
        admit(database, SourceSession(f"old-{place}", "benchmark", rows), terms, Account())


def _begin(database: Database) -> int:
    with database.write() as connection:
        return bulk_runs.create(
            connection,
            database,
            Filters(sources=("old",)),
            owner="old",
            actor=_ACTOR,
            at_once=_AT_ONCE,
            pace_ms=0,
        ).id


def _go_on(workers: Crew, database: Database) -> None:
    recompaction.refill(database, actor=_ACTOR)
    # As many as were notified when no other work was waiting.
    with database.write() as connection:
        due = jobs.notify_bulk(connection, database, at_once=_AT_ONCE)
    notify(workers.app, due)


def _compacted(workers: Crew, session: Session) -> float:
    """Finish a turn, give the milliseconds until its pass is committed, and let its work end."""
    state = (
        "SELECT passes, (SELECT count(*) FROM jobs WHERE state IN ('due', 'running')"
        f' AND session_key = {session.key}) FROM sessions WHERE "key" = {session.key}'
    )
    [(before, _)] = workers.play.rows(state)
    started = time.perf_counter()
    workers.finish_turn(session, _WORDS)
    took = None
    while True:
        [(passes, open_jobs)] = workers.play.rows(state)
        if took is None and passes > before:
            took = 1000 * (time.perf_counter() - started)
        if not open_jobs:
            break
        assert time.perf_counter() < started + _SECONDS, "the turn was not worked"
        time.sleep(_LOOK_SECONDS)
    assert took is not None, "the turn made no pass due"
    return took


def _p95(values: list[float]) -> float:
    return quantiles(values, n=20)[-1] if len(values) > 1 else values[0]
