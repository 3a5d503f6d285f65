"""Play a conversation through a gateway while the worker compacts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from afterturn.demo.measures import TurnMeasure
from afterturn.demo.stage import Stage
from afterturn.demo.turns import Turn
from producers.session import Session
from storage import jobs
from storage.conversations import sessions
from storage.conversations.sessions import SessionRecord
from storage.engine import Database
from storage.jobs import JobState, job_records
from workers.conversation.messages import outline
from workers.conversation.tokens import estimate_message

READING_SECONDS = 1.0
"""Longest wait for the worker after a turn, in place of a user who reads the answer."""

SETTLING_SECONDS = 60.0
"""Longest wait for the last jobs at the end."""

_PAUSE = 0.004


def play(stage: Stage, session: Session, turns: Sequence[Turn]) -> Iterator[TurnMeasure]:
    """Send every turn as a gateway would, and give what the session holds after each.

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
    """Wait for the session's last jobs; gives how many are still open."""

    def open_jobs() -> int:
        with stage.database.read() as connection:
            return len(job_records.open_jobs(connection, session.key))

    wait_until(lambda: open_jobs() == 0, SETTLING_SECONDS)
    return open_jobs()


def is_request(message: dict[str, Any]) -> bool:
    """Whether a person wrote it and it is not blank."""
    return outline(message).opens_turn


def is_idle(database: Database, key: int) -> bool:
    """Whether no job of the session runs or could. One that waits for its time does not count."""
    with database.read() as connection:
        running = any(
            job.state is JobState.RUNNING for job in job_records.open_jobs(connection, key)
        )
        return not running and not jobs.due_in_session(connection, database, key)


def wait_until(happened: Callable[[], bool], seconds: float) -> bool:
    """Wait for it, at most so long; gives whether it has happened."""
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
    """Store a turn; gives the seconds that `finalize_turn` took, the first time where it is
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
