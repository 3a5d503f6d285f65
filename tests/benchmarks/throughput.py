"""How many turns go through queue and database, against tasks that do nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.benchmarks.crew import THREADS, WORKERS, Crew, crew
from tests.benchmarks.desk import QUESTION
from tests.benchmarks.figure import Figure
from tests.benchmarks.real_talk import RealTalk
from tests.benchmarks.scale import Scale
from tests.benchmarks.stage import Stage

LEAST_RATIO = 0.25
_YOUNG = 2
"""Turns of a session in which nothing is due yet."""
_WAITING = 10
"""Turns of each session that wait where the workers are behind: one job decides about all."""
_TOKENS_OF_A_PAST_TURN = 4000
"""Of the window, so that a session of any window is long enough to have its oldest turns
absorbed: its tail is a fifth of the threshold, and a made-up turn has some 550 tokens."""
_MOST_WINDOW = 32_000
"""A larger one makes the sessions longer, which takes minutes, and no pass dearer."""
_PAST = 1 / 5
"""Of the window, in tokens: twice a tail."""
_MORE = 5
"""Times as many sessions with real turns: most of these are short work, and what the workers have
to do must last long enough that its beginning and end, when one of them stands still, weigh little.
"""
_WARM_UPS = 3
"""Rounds until every connection has planned what it will run."""
_WORDS = QUESTION.words
_DONE = "SELECT count(*) FROM jobs WHERE kind = 'micro' AND state = 'done'"
_PASSES = "SELECT coalesce(sum(passes), 0) FROM sessions"


@dataclass(slots=True)
class _Tally:
    """Turns that were worked, the seconds that it took, and the micro jobs and passes that they
    came to."""

    turns: int = 0
    seconds: float = 0.0
    jobs: int = 0
    passes: int = 0

    @property
    def rate(self) -> float:
        return self.turns / self.seconds

    @property
    def words(self) -> str:
        jobs, passes = self.jobs / self.turns, self.passes / self.turns
        return f"with its turn job each turn has {jobs:.2f} micro jobs of {passes:.2f} passes"


def turns_through_the_queue(stage: Stage, scale: Scale) -> Iterator[Figure]:
    """Turns per second that two worker processes work, in sessions that are as compacted as they
    always are, against tasks per second that the same processes do nothing in.

    Each session has one turn that waits. The turns are those of the real conversations; made-up
    ones of which every second has a pass are reported apart, and so is what it saves where several
    of a session wait, and what it costs to find that nothing is due.
    """
    real, made, behind, young = _Tally(), _Tally(), _Tally(), _Tally()
    with stage.database("postgresql") as url, crew(stage, url) as workers:
        rate = _measure(workers, scale, real, made, behind, young)
    who = f"{WORKERS} processes of {THREADS} threads"
    rates = f"{{:.0f}} / {rate:.0f} per second"
    yield Figure(
        "turns per second / no-op tasks per second",
        "postgresql",
        real.rate / rate,
        "x",
        detail=f"{rates.format(real.rate)}, {who}, {real.turns} turns of the real conversations; "
        f"{real.words}",
        least=LEAST_RATIO,
    )
    yield Figure(
        f"the same, made-up turns of {QUESTION.messages} messages",
        "postgresql",
        made.rate / rate,
        "x",
        detail=f"{rates.format(made.rate)}, {made.turns} turns; {made.words}",
    )
    yield Figure(
        f"the same, {_WAITING} made-up turns of each session waiting",
        "postgresql",
        behind.rate / rate,
        "x",
        detail=f"{rates.format(behind.rate)}, {behind.turns} turns; {behind.words}",
    )
    yield Figure(
        "turns in which nothing is due / no-op tasks per second",
        "postgresql",
        young.rate / rate,
        "x",
        detail=f"{rates.format(young.rate)}, {young.turns} turns; a turn is its turn job",
    )


def _measure(
    workers: Crew, scale: Scale, real: _Tally, made: _Tally, behind: _Tally, young: _Tally
) -> float:
    """Fill the tallies; return the rate of tasks that do nothing."""
    window, talk = min(scale.context_window, _MOST_WINDOW), RealTalk()
    many = _MORE * scale.crowd
    talks = [talk.from_turn(place * len(talk.turns) // many) for place in range(many)]
    talked = workers.open_with(
        (talk.past(one, int(window * _PAST)) for one in talks), context_window=window
    )
    grown = workers.open_sessions(
        scale.crowd,
        context_window=window,
        turns=8 + window // _TOKENS_OF_A_PAST_TURN,
        words=_WORDS,
    )
    # New ones for each time, since they grow.
    new = [
        workers.open_sessions(scale.crowd, context_window=window, turns=_YOUNG, words=_WORDS)
        for _ in range(scale.repeats)
    ]
    few = grown[: max(1, scale.crowd // _WAITING)]

    def say() -> float:
        return workers.work([(of, next(one)) for of, one in zip(talked, talks, strict=True)])

    if scale.warm_up:
        workers.do_nothing(scale.nothings)
        for _ in range(_WARM_UPS):
            workers.work_turns(grown, _WORDS)
            say()
    nothing = 0.0
    for sessions in new:
        nothing += workers.do_nothing(scale.nothings)
        with _counted(workers, real, len(talked)):
            real.seconds += say()
        with _counted(workers, made, len(grown)):
            made.seconds += workers.work_turns(grown, _WORDS)
        with _counted(workers, young, len(sessions)):
            young.seconds += workers.work_turns(sessions, _WORDS)
    for _ in range(scale.repeats):
        with _counted(workers, behind, len(few) * _WAITING):
            behind.seconds += workers.work_turns(few, _WORDS, each=_WAITING)
    return scale.nothings * scale.repeats / nothing


@contextmanager
def _counted(workers: Crew, tally: _Tally, turns: int) -> Iterator[None]:
    jobs, passes = workers.count(_DONE), workers.count(_PASSES)
    yield
    tally.turns += turns
    tally.jobs += workers.count(_DONE) - jobs
    tally.passes += workers.count(_PASSES) - passes
