"""Ask for batch passes and wait for what comes of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from producers.compaction import Compaction, Status
from producers.doorbell import Doorbell
from producers.seen import HELD_BACK, Seen
from producers.waiting import Patience, wait_for
from storage import attempts, guards, job_records, jobs, sessions
from storage.engine import Database
from storage.guards import GuardName
from storage.job_records import JobRecord
from storage.jobs import DueJob, JobKind, JobState
from storage.sessions import SessionRecord
from workers.holds import Hold, held_back
from workers.managed import ManagedBy, managed_by
from workers.settings import CompressionSettings
from workers.settings_file import SettingsSource
from workers.summariser.endpoints import chain_fingerprint
from workers.triggers import BATCH_QUEUE, RULES, Trigger


@dataclass(frozen=True, slots=True)
class Asked:
    """A job that is to be waited for.

    `record` is the session before, `after` the number of its last attempt then; `due` is what to
    ring for, None where the job runs already.
    """

    record: SessionRecord
    trigger: Trigger
    job_id: int
    after: int
    due: DueJob | None = None


class Passes:
    """Makes batch jobs due, rings for them, and waits. Safe to use from many threads.

    Methods that take a connection are for a transaction of a caller who holds the session's row.
    """

    def __init__(
        self, database: Database, settings: SettingsSource, doorbell: Doorbell | None
    ) -> None:
        self.database = database
        self._settings = settings
        self._doorbell = doorbell

    @property
    def settings(self) -> CompressionSettings:
        """Block `compression` as it is now."""
        return self._settings.current().compression

    def hold(
        self,
        connection: Connection,
        record: SessionRecord,
        trigger: Trigger,
        *,
        found_by_worker: bool = False,
    ) -> Hold | None:
        """What holds a pass of that trigger back now, None for nothing.

        A thread that Codex owns is left to Codex unless a person asks (ENGINE.md §9, row 17). What
        a worker found holds whatever summariser is configured here: it asks its own.
        """
        settings = self._settings.current()
        owned = managed_by(record, settings.compression) is ManagedBy.CODEX
        if owned and RULES[trigger].honours_switch:
            return Hold("Codex owns this thread and compacts it itself")
        known = guards.read_all(connection, self.database, record.key)
        fingerprint = chain_fingerprint(settings.auxiliary.compression)
        cooldown = known.get(GuardName.COOLDOWN)
        if found_by_worker and cooldown is not None and cooldown.subject is not None:
            fingerprint = cooldown.subject
        return held_back(
            RULES[trigger],
            known,
            session=record,
            settings=settings.compression,
            fingerprint=fingerprint,
        )

    def open_job(self, connection: Connection, key: int) -> JobRecord | None:
        """The session's batch job that is due or runs."""
        found = job_records.open_jobs(connection, key)
        return next((job for job in found if job.kind is JobKind.BATCH), None)

    def join(
        self,
        connection: Connection,
        record: SessionRecord,
        trigger: Trigger,
        options: Mapping[str, Any] | None = None,
    ) -> Asked | None:
        """A batch pass that runs already and may be waited for instead; None where none does.

        A trigger that bypasses the guards joins only its like: another pass may not be enough.
        """
        job = self.open_job(connection, record.key)
        if job is None or job.state is not JobState.RUNNING:
            return None
        alike = job.trigger == trigger and job.options == (options or {})
        if RULES[trigger].bypasses and not alike:
            return None
        return Asked(record, trigger, job.id, attempts.last_id(connection, record.key))

    def ask(
        self,
        connection: Connection,
        record: SessionRecord,
        trigger: Trigger,
        options: Mapping[str, Any] | None = None,
    ) -> Asked:
        """Make a pass due. A trigger that bypasses the guards takes the session away from a
        micro job that runs (ARCHITECTURE.md, *Jobs*)."""
        if RULES[trigger].bypasses:
            for kind in (JobKind.MICRO, JobKind.PRUNE):
                jobs.fence_out(connection, self.database, record.key, kind)
        due = jobs.make_due(
            connection,
            self.database,
            record.key,
            kind=JobKind.BATCH,
            queue=BATCH_QUEUE,
            trigger=trigger,
            strength=RULES[trigger].strength,
            options=options,
            ringing=self._doorbell is not None,
        )
        return Asked(record, trigger, due.id, attempts.last_id(connection, record.key), due)

    def join_or_ask(
        self,
        connection: Connection,
        record: SessionRecord,
        trigger: Trigger,
        options: Mapping[str, Any] | None = None,
    ) -> Asked | Compaction:
        """`join`, else `ask`, or what to answer where a guard holds the pass back."""
        running = self.join(connection, record, trigger, options)
        if running is not None:
            return running
        hold = self.hold(connection, record, trigger)
        if hold is not None:
            return nothing_done(record, Status.HELD_BACK, trigger, held_by=hold)
        return self.ask(connection, record, trigger, options)

    def outcome(self, asked: Asked | Compaction, patience: Patience) -> Compaction:
        """Ring, wait as long as the caller has patience, and tell what came of it.

        Never inside a transaction. What was answered already is given back.
        """
        if isinstance(asked, Compaction):
            return asked
        if asked.due is not None and self._doorbell is not None:
            self._doorbell.ring(asked.due)
        seen = wait_for(
            lambda: self._look(asked), lambda seen: seen.over(1000 * patience.left), patience
        )
        with self.database.read() as connection:
            now = sessions.fetch(connection, asked.record.key)
            held = None
            if seen.outcome == HELD_BACK:
                held = self.hold(connection, now, asked.trigger, found_by_worker=True)
        return _told(asked, seen, now, held)

    def _look(self, asked: Asked) -> Seen:
        with self.database.read() as connection:
            return Seen(
                job_records.standing(connection, self.database, asked.job_id),
                attempts.of_job(connection, asked.record.key, asked.job_id, after=asked.after),
            )


def nothing_done(
    record: SessionRecord,
    status: Status,
    trigger: Trigger | None = None,
    *,
    held_by: Hold | None = None,
) -> Compaction:
    """The answer to a request that no pass was made due for."""
    return Compaction(
        status,
        trigger,
        messages_before=record.live_messages,
        messages_after=record.live_messages,
        tokens_before=record.live_tokens,
        tokens_after=record.live_tokens,
        held_by=held_by,
        left_ms=held_by.left_ms if held_by else 0,
    )


def _told(asked: Asked, seen: Seen, now: SessionRecord, held: Hold | None) -> Compaction:
    first, last = (seen.tries[0], seen.tries[-1]) if seen.tries else (None, None)
    return Compaction(
        status=seen.status,
        trigger=asked.trigger,
        messages_before=first.messages_before if first else now.live_messages,
        messages_after=last.messages_after if last else now.live_messages,
        tokens_before=first.tokens_before if first else now.live_tokens,
        tokens_after=last.tokens_after if last else now.live_tokens,
        passes=seen.passes,
        changed=seen.changed,
        stuck=seen.stuck,
        outcome=seen.outcome,
        error_class=seen.error_class,
        held_by=held,
        left_ms=held.left_ms if held else seen.left_ms,
        job_id=asked.job_id,
    )
