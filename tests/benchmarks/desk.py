"""A session of uniform turns on a database of its own, worked step by step."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from producers import Session
from storage.conversations.micro_reads import read_state
from storage.jobs import JobKind, job_records
from storage.outcomes import Outcome
from tests.benchmarks.disk import tidy
from tests.benchmarks.summariser import InstantSummariser
from tests.support.sessions.conversations import turn
from tests.support.sessions.play import ChatDict, Play, playing
from workers.micro.plan import why_nothing_due
from workers.policy.threshold import SMALL_WINDOW_RATIO
from workers.runtime.context import WorkerContext
from workers.runtime.jobs import Worked, work
from workers.settings import SettingsSource

_MESSAGES_AT_ONCE = 400
_FAST_TOKENS = 60_000
_MOST_TURNS = 100
_NEVER_FULL = 100_000_000


@dataclass(frozen=True, slots=True)
class TurnShape:
    """What every turn of a session looks like: `tools` tool groups, texts of `words` words."""

    tools: int
    words: int

    @property
    def messages(self) -> int:
        return 2 + 2 * self.tools

    def turn(self, number: int) -> list[ChatDict]:
        return turn(number, words=self.words, tools=self.tools)


QUESTION = TurnShape(tools=1, words=220)
"""Four messages, of which two turns hold the 1,000 tokens of a pass."""


@dataclass(slots=True)
class _OnePass:
    """Lets a worker stop as soon as it has committed a pass."""

    committed: bool = False

    def failpoint(self, point: str) -> None:
        self.committed = self.committed or point == "after-commit"

    def stopping(self) -> bool:
        return self.committed


@dataclass(slots=True)
class Desk:
    """A session, the gateway that stores it and the worker that compacts it."""

    play: Play
    session: Session
    shape: TurnShape
    turns: int = 0

    def fill(self, messages: int) -> None:
        """Store turns until the session holds about `messages`; nothing is compacted."""
        wanted = messages // self.shape.messages
        at_once = max(1, _MESSAGES_AT_ONCE // self.shape.messages)
        while self.turns < wanted:
            self._store(min(at_once, wanted - self.turns))
        tidy(self.play.database)

    def work_off(self) -> None:
        """Absorb all that is due: the bulk in few large passes, the rest in passes of usual size.

        What comes out is what a session looks like that was compacted all along.
        """
        self.grow_until_due()
        large = replace(
            self.play.context,
            summariser=InstantSummariser(input_chars=100 * _FAST_TOKENS),
            settings=_in_large_passes(self.play),
        )
        self._absorb_all(large)
        self.grow_until_due()
        self._absorb_all(self.play.context)
        tidy(self.play.database)

    def grow_until_due(self) -> float:
        """Store turn after turn, all of one size, until a pass is due.

        Gives the milliseconds of the turn job that found it due.
        """
        for _ in range(_MOST_TURNS):
            self.next_turn()
            took, worked = self._timed(self.play.context, JobKind.TURN)
            if any(job.kind is JobKind.MICRO for job in worked.due) and self._is_due():
                return took
        raise AssertionError(f"no pass was due after {_MOST_TURNS} turns")

    def _is_due(self) -> bool:
        """Return whether the rows hold a pass; a job that would find none is worked here."""
        with self.play.database.read() as connection:
            state = read_state(connection, self.play.database, self.session.key)
            settings = self.play.context.settings.current().compression
            if why_nothing_due(connection, state, settings) is None:
                return True
        self._timed(self.play.context, JobKind.MICRO)
        return False

    def next_turn(self) -> None:
        """Store one more turn, of the same size as all others."""
        self._store(1)

    def absorb(self) -> float:
        """Work the micro job, in which one pass is due, and give the milliseconds it took."""
        took, worked = self._timed(self.play.context, JobKind.MICRO)
        match [one.outcome for one in worked.passes]:
            case [Outcome.ABSORBED, Outcome.NOTHING_DUE]:
                return took
            case other:
                raise AssertionError(f"one pass was due, not {other}")

    def absorb_first(self) -> float:
        """Work the micro job until its first commit, take the pass back, and give the
        milliseconds that the job took."""
        once = _OnePass()
        context = replace(self.play.context, failpoint=once.failpoint, stopping=once.stopping)
        took, worked = self._timed(context, JobKind.MICRO)
        match [one.outcome for one in worked.passes]:
            case [Outcome.ABSORBED, Outcome.HANDED_BACK]:
                self.play.gateway.undo(self.session)
                return took
            case other:
                raise AssertionError(f"a first pass was due, not {other}")

    def absorb_all(self) -> int:
        """Work the micro job to its end and give the number of passes."""
        return self._absorb_all(self.play.context)

    def _absorb_all(self, context: WorkerContext) -> int:
        _, worked = self._timed(context, JobKind.MICRO)
        *passes, last = worked.passes
        wrong = [outcome for outcome in passes if outcome.outcome is not Outcome.ABSORBED]
        assert last.outcome is Outcome.NOTHING_DUE, f"the job ended with {last}"
        assert not wrong, f"among the passes were {wrong}"
        return len(passes)

    def _timed(self, context: WorkerContext, kind: JobKind) -> tuple[float, Worked]:
        with self.play.database.read() as connection:
            found = job_records.open_jobs(connection, self.session.key)
        job = next(job.id for job in found if job.kind is kind)
        started = time.perf_counter()
        worked = work(context, job)
        took = 1000 * (time.perf_counter() - started)
        match worked:
            case Worked():
                return took, worked
            case other:
                raise AssertionError(f"the {kind.value} job came to {other}")

    def _store(self, turns: int) -> None:
        numbers = range(self.turns, self.turns + turns)
        messages = [message for number in numbers for message in self.shape.turn(number)]
        self.play.gateway.finalize_turn(self.session, messages)
        self.turns += turns


@contextmanager
def desk(url: str, shape: TurnShape, *, context_window: int) -> Iterator[Desk]:
    """Yield a desk with an empty session on the empty database `url`.

    It has the threshold and the tail of a session with that window, and never outgrows its own:
    nothing but micro-compaction is measured.
    """
    with playing(
        url,
        summariser=InstantSummariser(),
        threshold_tokens=int(context_window * SMALL_WINDOW_RATIO),
        hygiene_hard_message_limit=1_000_000,
    ) as play:
        session = play.gateway.open_session("desk", context_window=_NEVER_FULL)
        yield Desk(play, session, shape)


def _in_large_passes(play: Play) -> SettingsSource:
    settings = play.context.settings.current()
    block = settings.compression.model_copy(update={"micro_compact_min_tokens": _FAST_TOKENS})
    return SettingsSource.fixed(settings.model_copy(update={"compression": block}))
