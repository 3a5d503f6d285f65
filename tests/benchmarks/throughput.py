"""How many turns go through queue and database, against tasks that do nothing."""

from __future__ import annotations

from collections.abc import Iterator

from tests.benchmarks.crew import THREADS, WORKERS, crew
from tests.benchmarks.desk import QUESTION
from tests.benchmarks.figure import Figure
from tests.benchmarks.scale import Scale
from tests.benchmarks.stage import Stage

LEAST_RATIO = 0.25
_YOUNG = 2
"""Turns of a session in which nothing is due yet."""
_WAITING = 10
"""Turns of each session that wait where the workers are behind: one job decides about all."""
_TOKENS_OF_A_PAST_TURN = 4000
"""Of the window, so that a session of any window is long enough to have its oldest turns
absorbed: its tail is a fifth of the threshold, and a turn has some 550 tokens."""
_WORDS = QUESTION.words
_DONE = "SELECT count(*) FROM jobs WHERE kind = 'micro' AND state = 'done'"
_PASSES = "SELECT coalesce(sum(passes), 0) FROM sessions"


def turns_through_the_queue(stage: Stage, scale: Scale) -> Iterator[Figure]:
    """Turns per second that two worker processes work, in sessions that are as compacted as they
    always are, against tasks per second that the same processes do nothing in.

    Each session has one turn that waits, so nothing is saved by deciding about several at once.
    What that saves where workers are behind is reported apart, and what it costs to find that
    nothing is due.
    """
    window = scale.context_window
    with stage.database("postgresql") as url, crew(stage, url) as workers:
        grown = workers.open_sessions(
            scale.crowd,
            context_window=window,
            turns=8 + window // _TOKENS_OF_A_PAST_TURN,
            words=_WORDS,
        )
        # New ones for each time, since they grow.
        young = [
            workers.open_sessions(scale.crowd, context_window=window, turns=_YOUNG, words=_WORDS)
            for _ in range(scale.repeats)
        ]
        if scale.warm_up:
            workers.do_nothing(scale.nothings)
            workers.work_turns(grown, _WORDS)
        jobs, passes = workers.count(_DONE), workers.count(_PASSES)
        nothing = worked = looked = behind = 0.0
        for sessions in young:
            nothing += workers.do_nothing(scale.nothings)
            worked += workers.work_turns(grown, _WORDS)
            looked += workers.work_turns(sessions, _WORDS)
        jobs, passes = workers.count(_DONE) - jobs, workers.count(_PASSES) - passes
        few = grown[: max(1, scale.crowd // _WAITING)]
        for _ in range(scale.repeats):
            behind += workers.work_turns(few, _WORDS, each=_WAITING)
    turns = scale.crowd * scale.repeats
    rate = scale.nothings * scale.repeats / nothing
    crew_words = f"{WORKERS} processes of {THREADS} threads, {turns} turns of "
    crew_words += f"{QUESTION.messages} messages"
    yield Figure(
        "turns per second / no-op tasks per second",
        "postgresql",
        turns / worked / rate,
        "x",
        detail=f"{turns / worked:.0f} / {rate:.0f} per second, {crew_words}; with its turn job "
        f"each turn has {jobs / turns:.2f} micro jobs of {passes / turns:.2f} passes",
        least=LEAST_RATIO,
    )
    many = len(few) * _WAITING * scale.repeats
    yield Figure(
        f"the same, {_WAITING} turns of each session waiting",
        "postgresql",
        many / behind / rate,
        "x",
        detail=f"{many / behind:.0f} / {rate:.0f} per second, {many} turns",
    )
    yield Figure(
        "turns in which nothing is due / no-op tasks per second",
        "postgresql",
        turns / looked / rate,
        "x",
        detail=f"{turns / looked:.0f} / {rate:.0f} per second, {crew_words}; a turn is its turn "
        "job",
    )
