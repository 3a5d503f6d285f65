"""A worker that plays batch jobs by a script: what a gateway sees of one, without any summary."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

from sqlalchemy import Connection
from sqlalchemy import text as sql

from storage import attempts, jobs
from storage.attempts import AttemptRecord
from storage.conversations import sessions
from storage.conversations.sessions import SessionRecord
from storage.engine import Database
from storage.jobs import Claim, Ended, JobKind
from tests.support.observing.at_once import succeeded

LEASE_MS = 60_000
LOOK_SECONDS = 0.005


@dataclass(frozen=True, slots=True)
class Ends:
    """A pass that closes its job, and leaves so many rows and tokens fewer than before."""

    outcome: str
    rows: int = 0
    tokens: int = 0
    error_class: str | None = None


@dataclass(frozen=True, slots=True)
class Waits:
    """A failed try whose job is due again later; with `outcome` None one that left no record."""

    ms: int
    outcome: str | None = "failed"
    rows: int = 0
    tokens: int = 0
    error_class: str = "server_error"


@dataclass(frozen=True, slots=True)
class Dies:
    """A job that is dead-lettered."""


Step: TypeAlias = Ends | Waits | Dies


def compacts(rows: int, tokens: int) -> Ends:
    return Ends("compacted", rows, tokens)


@dataclass(slots=True)
class ScriptedWorker:
    """Works batch jobs by `script`, one step per claim, and remembers what it claimed."""

    database: Database
    script: list[Step]
    claims: list[Claim] = field(default_factory=list)

    def work_one(self) -> bool:
        """Work the batch job that is due, if there is one."""
        with self.database.read() as connection:
            due = connection.execute(
                sql("SELECT id FROM jobs WHERE kind = 'batch' AND state = 'due' ORDER BY id")
            ).scalar()
        claim = self.claim(due) if due is not None else None
        if claim is None:
            return False
        self.end(claim, self.script.pop(0))
        return True

    def claim(self, job_id: int) -> Claim | None:
        with self.database.write() as connection:
            claim = jobs.claim(
                connection,
                self.database,
                job_id,
                lease_owner="script",
                lease_ms=LEASE_MS,
                deadline_ms=LEASE_MS,
            )
        if claim is not None:
            assert claim.kind is JobKind.BATCH
            self.claims.append(claim)
        return claim

    def end(self, claim: Claim, step: Step) -> None:
        with self.database.write() as connection:
            before = sessions.lock(connection, claim.session_key)
            match step:
                case Ends():
                    self._record(connection, claim, before, step)
                    jobs.finish(connection, self.database, claim)
                case Waits():
                    if step.outcome is not None:
                        self._record(connection, claim, before, step)
                    jobs.release(
                        connection,
                        self.database,
                        claim,
                        delay_ms=step.ms,
                        reason=step.error_class,
                        ended=Ended.FORESEEN,
                    )
                case Dies():
                    jobs.dead_letter(connection, self.database, claim, reason="KeyError", trace="")

    def _record(
        self, connection: Connection, claim: Claim, before: SessionRecord, step: Ends | Waits
    ) -> None:
        after = before
        if step.rows or step.tokens:
            after = sessions.count_change(
                connection, before.key, messages=-step.rows, tokens=-step.tokens, passes=1
            )
        attempts.record(
            connection,
            self.database,
            before.key,
            AttemptRecord(
                job_id=claim.job_id,
                kind="batch",
                trigger=claim.trigger,
                outcome=step.outcome or "",
                messages_before=before.live_messages,
                messages_after=after.live_messages,
                tokens_before=before.live_tokens,
                tokens_after=after.live_tokens,
                cursor=0,
                passes=after.passes,
                tokens_saved=after.tokens_saved,
                threshold_tokens=0,
                error_class=step.error_class,
            ),
        )


@contextmanager
def scripted(
    database: Database, *script: Step, late_seconds: float = 0.0
) -> Iterator[ScriptedWorker]:
    """Work batch jobs from a thread; fails where a step is left or none was left for a job.

    With `late_seconds` the worker comes that late, so that a job can be asked for once more.
    """
    worker = ScriptedWorker(database, list(script))
    with in_background(worker.work_one, late_seconds=late_seconds):
        yield worker
    assert worker.script == []


@contextmanager
def in_background(work_one: Callable[[], object], *, late_seconds: float = 0.0) -> Iterator[None]:
    """Call `work_one` from a thread, again and again, until the block ends."""
    ended = threading.Event()
    errors: list[Exception] = []

    def run() -> None:
        ended.wait(late_seconds)
        while not ended.is_set():
            try:
                if not work_one():
                    ended.wait(LOOK_SECONDS)
            except Exception as error:  # noqa: BLE001 - the test raises it
                errors.append(error)
                return

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(60)
    succeeded(errors)
