"""What looking for idle sessions costs among many that are not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import text as sql

from storage.engine import Database
from tests.benchmarks.disk import tidy
from tests.benchmarks.figure import Figure
from tests.benchmarks.scale import Scale
from tests.benchmarks.stage import DATABASES, Stage
from tests.benchmarks.summariser import InstantSummariser
from tests.benchmarks.timing import Measured, by_turns, milliseconds
from tests.support.sessions.play import playing
from workers.runtime.context import WorkerContext
from workers.scans.idle import IdleScan, scan_idle

MOST_RATIO = 2.0
_IDLE_SECONDS = 3600.0
_TOKENS = 100_000
"""Size of every session: enough for an idle pass."""

_WARM_UP = 2
_ROUNDS = 9

# Of the sessions that are not due one half was active a minute ago, the other half was looked at
# since it was. Those that are due lie between them.
_FILL = (
    "INSERT INTO sessions (owner, id, source, context_window, started_at, active_at, idle_since,"
    " live_tokens, live_messages, turns, decided_turns)"
    " WITH RECURSIVE numbers (n) AS"
    " (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < :sessions)"
    " SELECT 'o' || n % 97, 's' || n, 'cli', 128000, 1, {now} - 60000 - n % 60000,"
    " CASE n % 2 WHEN 0 THEN {now} - 60000 - n % 60000 END, :tokens, 200, 50, 50 FROM numbers"
)
_MAKE_IDLE = (
    "UPDATE sessions SET active_at = {now} - 7200000, idle_since = {now} - 7200000"
    ' WHERE "key" % :apart = 0'
)


def idle_scans(stage: Stage, scale: Scale) -> Iterator[Figure]:
    """Yield one scan that finds the same number of idle sessions among many and among few."""
    for database in DATABASES:
        with (
            _crowd(stage, database, scale.sessions, scale.idle) as many,
            _crowd(stage, database, scale.few_sessions, scale.idle) as few,
        ):
            (compared,) = by_turns(
                _scanning(many, scale.sessions, scale.idle),
                _scanning(few, scale.few_sessions, scale.idle),
                rounds=min(scale.rounds, _ROUNDS),
                warm_up=min(scale.warm_up, _WARM_UP),
            )
        yield Figure(
            f"idle scan, {scale.idle:,} due of {scale.sessions:,} / of {scale.few_sessions:,}",
            database,
            compared.ratio,
            "x",
            MOST_RATIO,
            str(compared),
        )


@contextmanager
def _crowd(stage: Stage, kind: str, sessions: int, idle: int) -> Iterator[WorkerContext]:
    """Yield a worker on a database with so many sessions, of which `idle` are idle."""
    with (
        stage.database(kind) as url,
        playing(
            url, summariser=InstantSummariser(), idle_compact_after_seconds=_IDLE_SECONDS
        ) as play,
    ):
        with play.database.write() as connection:
            fill = sql(_FILL.format(now=play.database.now()))
            connection.execute(fill, {"sessions": sessions, "tokens": _TOKENS})
        _become_idle(play.database, sessions // idle)
        tidy(play.database)
        yield play.context


def _become_idle(database: Database, apart: int) -> None:
    with database.write() as connection:
        connection.execute(sql("DELETE FROM jobs"))
        connection.execute(sql(_MAKE_IDLE.format(now=database.now())), {"apart": apart})


def _scanning(context: WorkerContext, sessions: int, idle: int) -> Measured:
    def measured() -> tuple[float]:
        found: list[IdleScan] = []
        took = milliseconds(lambda: found.append(scan_idle(context)))
        assert found == [IdleScan(checked=idle, enqueued=idle)], f"{found} instead of {idle}"
        _become_idle(context.database, sessions // idle)
        return (took,)

    return measured
