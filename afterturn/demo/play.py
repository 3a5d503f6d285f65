"""Play a conversation: a stage with an embedded worker, a gateway, and what is measured."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from afterturn.demo.transcript import Turn
from producers.gateway import Gateway
from producers.session import Session
from storage import job_records, jobs, sessions
from storage.engine import Database
from storage.jobs import JobState
from storage.sessions import SessionRecord
from tasks.embedded import EmbeddedWorker
from workers.messages import outline
from workers.settings import Settings
from workers.settings_file import SettingsSource
from workers.tokens import estimate_message

POLL_SECONDS = 0.02
"""Pause between two polls of the worker. A person takes longer to read than the usual pause; here
nobody reads."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A database, a worker and a gateway. `database` is that of the worker."""

    settings: Settings
    database: Database
    gateway: Gateway
    worker: EmbeddedWorker


@contextmanager
def open_stage(base: Settings, database_url: str | None) -> Iterator[Stage]:
    """Start an embedded worker and a gateway on a database of their own.

    Without `database_url` that is a SQLite file which is removed afterwards. The broker of `base`
    is left alone: a demo takes no jobs from a deployment. Raises `StorageError`.
    """
    with ExitStack() as stack:
        if database_url is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="afterturn-demo-"))
            database_url = f"sqlite:///{Path(folder, 'demo.db').as_posix()}"
        settings = base.model_copy(
            update={
                "database_url": database_url,
                "broker_url": None,
                "worker": base.worker.model_copy(update={"poll_seconds": POLL_SECONDS}),
            }
        )
        gateway = stack.enter_context(Gateway(settings, owner="demo"))
        worker = EmbeddedWorker(SettingsSource.fixed(settings))
        stack.callback(worker.stop)
        worker.start()
        yield Stage(settings, worker.context.database, gateway, worker)


@dataclass(frozen=True, slots=True)
class TurnMeasure:
    """The session after a turn. Tokens are estimates; `live_tokens` is what the view holds when
    the next request is sent, `peak_tokens` what it held as soon as the turn was stored, if that
    was more. `unmanaged_tokens` is what it would hold without compaction, `kept_tokens` the user
    messages in it. `finalize_ms` is how long the gateway waited for `finalize_turn`."""

    turn: int
    live_tokens: int
    peak_tokens: int
    unmanaged_tokens: int
    kept_tokens: int
    passes: int
    finalize_ms: float


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Middle, 99th of a hundred, and worst."""

    p50: float
    p99: float
    worst: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Percentiles:
        """Return the values at those ranks (nearest rank, nothing interpolated); values must not be
        empty."""
        ordered = sorted(values)

        def at(share: float) -> float:
            return ordered[max(0, math.ceil(share * len(ordered)) - 1)]

        return cls(at(0.5), at(0.99), ordered[-1])


READING_SECONDS = 1.0
"""Longest wait for the worker after a turn, in place of a user who reads the answer."""

SETTLING_SECONDS = 60.0
"""Longest wait for the last jobs at the end."""

_PAUSE = 0.004


def play(stage: Stage, session: Session, turns: Sequence[Turn]) -> Iterator[TurnMeasure]:
    """Send every turn as a gateway would, and yield what the session holds after each.

    After a turn the worker gets a moment, which ends as soon as it has nothing to do.
    """
    unmanaged = kept = 0
    for turn in turns:
        seconds = _send(stage, session, turn)
        unmanaged += sum(map(estimate_message, turn.messages))
        kept += sum(map(estimate_message, filter(is_request, turn.messages)))
        stored = _fetch(stage.database, session.key)
        wait_until(lambda: is_idle(stage.database, session.key), READING_SECONDS)
        record = _fetch(stage.database, session.key)
        yield TurnMeasure(
            turn=turn.number,
            live_tokens=record.live_tokens,
            peak_tokens=max(stored.live_tokens, record.live_tokens),
            unmanaged_tokens=unmanaged,
            kept_tokens=kept,
            passes=record.passes,
            finalize_ms=1000 * seconds,
        )


def settle(stage: Stage, session: Session) -> int:
    """Wait for the session's last jobs; returns how many are still open."""

    def open_jobs() -> int:
        with stage.database.read() as connection:
            return len(job_records.open_jobs(connection, session.key))

    wait_until(lambda: open_jobs() == 0, SETTLING_SECONDS)
    return open_jobs()


def is_request(message: dict[str, Any]) -> bool:
    """Return whether a person wrote it and it is not blank."""
    return outline(message).opens_turn


def is_idle(database: Database, key: int) -> bool:
    """Return whether no job of the session runs or could. One that waits for its time may exist."""
    with database.read() as connection:
        running = any(
            job.state is JobState.RUNNING for job in job_records.open_jobs(connection, key)
        )
        return not running and not jobs.due_in_session(connection, database, key)


def wait_until(happened: Callable[[], bool], seconds: float) -> bool:
    """Wait for it, at most so long; returns whether it has happened."""
    until = time.monotonic() + seconds
    while not happened():
        if time.monotonic() > until:
            return False
        time.sleep(_PAUSE)
    return True


def _fetch(database: Database, key: int) -> SessionRecord:
    with database.read() as connection:
        return sessions.fetch(connection, key)


def _send(stage: Stage, session: Session, turn: Turn) -> float:
    """Store a turn; returns the seconds that `finalize_turn` took, the first time where it is
    repeated."""
    gateway, event = stage.gateway, f"turn-{turn.number}"
    if turn.early:
        gateway.append(session, turn.early, turn_open=True, event_id=f"{event}-open")
    started = time.perf_counter()
    gateway.finalize_turn(session, turn.late, event_id=event)
    seconds = time.perf_counter() - started
    if turn.repeated:
        gateway.finalize_turn(session, turn.late, event_id=event)
    return seconds
