"""What a batch pass costs, the model left out."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from sqlalchemy import text as sql

from producers import Session
from storage import jobs
from storage.jobs import JobKind
from storage.outcomes import Outcome
from tests.benchmarks.figure import Figure
from tests.benchmarks.scale import Scale
from tests.benchmarks.stage import DATABASES, Stage
from tests.benchmarks.summariser import InstantSummariser
from tests.benchmarks.timing import Measured, by_turns, milliseconds
from tests.support.sessions.conversations import turn
from tests.support.sessions.play import Play, playing
from workers.policy.triggers import BATCH_QUEUE, RULES, Trigger
from workers.runtime.jobs import Worked, work
from workers.runtime.pass_context import PassResult

MOST_RATIO = 3.0

_MESSAGES_A_TURN = 4
_MIDDLE_SHARE = 0.95
_WORDS = 30


def batch_passes(stage: Stage, scale: Scale) -> Iterator[Figure]:
    """Yield the commit of a pass over a long middle against the bare UPDATE and INSERTs, and the
    whole of the pass in milliseconds: with the prompt, whose redaction takes most of the time, and
    without."""
    for database in DATABASES:
        with stage.database(database) as url, _filled(url, scale) as bench:
            pass_, bare = bench.compacting(), bench.bare()
            commit, plan, whole = by_turns(
                pass_, bare, rounds=scale.rounds // 2 or 1, warm_up=scale.warm_up
            )
            sizes = f"{bench.live:,} live messages, {bench.middle:,} of them middle"
            yield Figure(
                f"batch commit / bare UPDATE and INSERTs, {sizes}",
                database,
                commit.ratio,
                "x",
                MOST_RATIO,
                str(commit),
            )
            rows = f"{bench.middle:,} rows updated, {bench.inserted} inserted"
            yield Figure("batch pass without prompt and model", database, plan.first, "ms")
            yield Figure("batch pass without model", database, whole.first, "ms", None, rows)


@dataclass(slots=True)
class _Clock:
    """When a job came past its debug points."""

    at: dict[str, float] = field(default_factory=dict)

    def failpoint(self, point: str) -> None:
        self.at[point] = time.perf_counter()

    def between(self, first: str, last: str) -> float:
        return 1000 * (self.at[last] - self.at[first])


@dataclass(slots=True)
class _Bench:
    """A session with a long middle, compacted and restored over and over."""

    play: Play
    session: Session
    live: int
    middle: int
    inserted: int = 0

    def compacting(self) -> Measured:
        """Work a batch job; return the milliseconds of its commit, of everything but the prompt,
        and of the whole."""
        clock = _Clock()
        context = replace(self.play.context, failpoint=clock.failpoint)

        def measured() -> tuple[float, float, float]:
            job = self._due()
            before = self._inserted_rows()
            started = time.perf_counter()
            worked = work(context, job)
            took = 1000 * (time.perf_counter() - started)
            match worked:
                case Worked(passes=(PassResult(Outcome.COMPACTED, rows),)) if rows == self.middle:
                    pass
                case other:
                    raise AssertionError(f"{self.middle} rows were to be compacted, not {other}")
            self.inserted = self._inserted_rows() - before
            self.play.gateway.undo(self.session)
            prompt = clock.between("planned", "answered")
            return clock.between("answered", "after-commit"), took - prompt, took

        return measured

    def bare(self) -> Measured:
        """Archive the same rows and put a marker and a summary in their place, by hand."""
        first = _MESSAGES_A_TURN
        values = {"key": self.session.key, "first": first, "last": first + self.middle - 1}

        def measured() -> tuple[float, float, float]:
            took = milliseconds(lambda: self._write(_BARE, values))
            self._write(_RESTORE, values)
            return took, took, took

        return measured

    @property
    def _kept_turns(self) -> int:
        """Newest turns that stay: all but the head, which is one turn, and the middle."""
        return (self.live - self.middle) // _MESSAGES_A_TURN - 1

    def _write(self, statements: tuple[str, ...], values: dict[str, int]) -> None:
        with self.play.database.write() as connection:
            for statement in statements:
                connection.execute(sql(statement), values)

    def _due(self) -> int:
        with self.play.database.write() as connection:
            return jobs.enqueue(
                connection,
                self.play.database,
                self.session.key,
                kind=JobKind.BATCH,
                queue=BATCH_QUEUE,
                trigger=Trigger.MANUAL,
                priority=RULES[Trigger.MANUAL].priority,
                options={"keep_last": self._kept_turns},
            ).id

    def _inserted_rows(self) -> int:
        """Return rows of the tables that a pass adds to."""
        tables = ("messages", "summaries", "attempts", "signals", "cursors", "guards")
        counts = (self.play.rows(f"SELECT count(*) FROM {table}")[0][0] for table in tables)
        return sum(counts)


_BARE = (
    "UPDATE messages SET active = 0, compacted = 1 WHERE session_key = :key AND active = 1"
    " AND kind = 'message' AND position BETWEEN :first AND :last",
    "INSERT INTO summaries (session_key, kind, status, text, tokens, first_position,"
    " last_position, cursor_before, template, model, created_at)"
    " VALUES (:key, 'bare', 'undone', '', 0, :first, :last, 0, '', '', 0)",
    "INSERT INTO messages (session_key, position, kind, tokens, active, created_at)"
    " VALUES (:key, :last, 'bare', 0, 0, 0)",
)
_RESTORE = (
    "UPDATE messages SET active = 1, compacted = 0 WHERE session_key = :key AND active = 0"
    " AND kind = 'message' AND position BETWEEN :first AND :last",
)


@contextmanager
def _filled(url: str, scale: Scale) -> Iterator[_Bench]:
    live = scale.batch
    middle = int(live * _MIDDLE_SHARE) // _MESSAGES_A_TURN * _MESSAGES_A_TURN
    with playing(
        url,
        summariser=InstantSummariser(),
        micro_compact=False,
        protect_first_n=_MESSAGES_A_TURN,
    ) as play:
        session = play.gateway.open_session("long", context_window=2_000_000)
        said = [m for number in range(live // _MESSAGES_A_TURN) for m in turn(number, words=_WORDS)]
        play.gateway.finalize_turn(session, said)
        play.work_off()
        yield _Bench(play, session, live, middle)
