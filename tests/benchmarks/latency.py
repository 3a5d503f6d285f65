"""How long after a turn its compaction is committed, when nobody else wants anything."""

from __future__ import annotations

import time
from collections.abc import Iterator
from statistics import median

from producers import Session
from tests.benchmarks.crew import THREADS, WORKERS, Crew, crew
from tests.benchmarks.figure import Figure
from tests.benchmarks.scale import Scale
from tests.benchmarks.stage import DATABASES, Stage
from workers.policy.threshold import DEFAULT_WINDOW

_WORDS = 480
"""Of the texts of a turn, so that every single turn makes a pass due."""
_TURNS = 24
"""Half as many again as the tail of the usual window holds."""
_LOOK_SECONDS = 0.001
_SECONDS = 30.0
_STATE = (
    "SELECT passes, (SELECT count(*) FROM jobs WHERE state IN ('due', 'running')) FROM sessions"
)


def compacted_after_turns(stage: Stage, scale: Scale) -> Iterator[Figure]:
    """Measure the call of `finalize_turn` to the commit of the micro pass that it enqueues."""
    for database in DATABASES:
        with stage.database(database) as url, crew(stage, url) as workers:
            [session] = workers.open_sessions(
                1, context_window=DEFAULT_WINDOW, turns=_TURNS, words=_WORDS
            )
            for _ in range(scale.warm_up):
                _compacted(workers, session)
            took = sorted(_compacted(workers, session) for _ in range(scale.rounds))
        yield Figure(
            "from finalize_turn to the committed micro pass, idle, p50",
            database,
            median(took),
            "ms",
            detail=f"{took[0]:.1f} to {took[-1]:.1f} ms, {len(took)} turns, {WORKERS} processes "
            f"of {THREADS} threads",
        )


def _compacted(workers: Crew, session: Session) -> float:
    """Finish a turn, give the milliseconds until its pass is committed, and let all work end."""
    [(before, _)] = workers.play.rows(_STATE)
    started = time.perf_counter()
    workers.finish_turn(session, _WORDS)
    took = None
    while True:
        [(passes, open_jobs)] = workers.play.rows(_STATE)
        if took is None and passes > before:
            took = 1000 * (time.perf_counter() - started)
        if not open_jobs:
            break
        assert time.perf_counter() < started + _SECONDS, "the turn was not worked"
        time.sleep(_LOOK_SECONDS)
    assert took is not None, "the turn made no pass due"
    return took
