"""Requests for batch passes over a session, and the wait for their outcome."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from producers.measure import Size, measure
from producers.notify import Notifier
from producers.results import Compaction, Status
from producers.waiting import Deadline, JobSnapshot, poll
from storage import attempts, guards, jobs
from storage.conversations import sessions
from storage.conversations.sessions import SessionRecord
from storage.engine import Database
from storage.guards import GuardName
from storage.jobs import DueJob, JobKind, JobState, job_records
from storage.jobs.job_records import JobRecord
from storage.outcomes import Outcome
from workers.policy.guards import Suppression, suppressed_by
from workers.policy.threshold import ManagedBy, managed_by
from workers.policy.triggers import BATCH_QUEUE, RULES, Trigger
from workers.settings import CompressionSettings, SettingsSource
from workers.summariser.endpoints import chain_fingerprint


@dataclass(frozen=True, slots=True)
class RequestedPass:
    """A job for which a caller waits.

    `record` is the session before the pass, `after` the number of its last attempt then; `due` is
    the job to publish, None where it already runs.
    """

    record: SessionRecord
    trigger: Trigger
    job_id: int
    after: int
    due: DueJob | None = None


class Passes:
    """The batch passes of a gateway: enqueue, notify, wait. Safe to use from many threads.

    Methods that take a connection require a transaction that has locked the session's row.
    """

    def __init__(
        self, database: Database, settings: SettingsSource, notifier: Notifier | None
    ) -> None:
        self.database = database
        self._settings = settings
        self._notifier = notifier

    @property
    def settings(self) -> CompressionSettings:
        """Block `compression` as it is now."""
        return self._settings.current().compression

    def measure(self, record: SessionRecord) -> Size:
        """Measure a session by the current settings."""
        return measure(record, self.settings)

    def suppressed_by(
        self,
        connection: Connection,
        record: SessionRecord,
        trigger: Trigger,
        *,
        found_by_worker: bool = False,
    ) -> Suppression | None:
        """Return what suppresses a pass of that trigger now, None for nothing.

        A thread that Codex owns is left to Codex unless a person requests the pass. With
        `found_by_worker`, a cooldown counts for any summariser that is configured here, since the
        worker has its own configuration.
        """
        settings = self._settings.current()
        owned = managed_by(record, settings.compression) is ManagedBy.CODEX
        if owned and RULES[trigger].honours_switch:
            return Suppression("Codex owns this thread and compacts it itself")
        known = guards.read_all(connection, self.database, record.key)
        fingerprint = chain_fingerprint(settings.auxiliary.compression)
        cooldown = known.get(GuardName.COOLDOWN)
        if found_by_worker and cooldown is not None and cooldown.subject is not None:
            fingerprint = cooldown.subject
        return suppressed_by(
            RULES[trigger],
            known,
            session=record,
            settings=settings.compression,
            fingerprint=fingerprint,
        )

    def open_job(self, connection: Connection, key: int) -> JobRecord | None:
        """Return the session's batch job that is due or runs, if any."""
        found = job_records.open_jobs(connection, key)
        return next((job for job in found if job.kind is JobKind.BATCH), None)

    def join(
        self,
        connection: Connection,
        record: SessionRecord,
        trigger: Trigger,
        options: Mapping[str, Any] | None = None,
    ) -> RequestedPass | None:
        """Return a running batch pass to wait for instead, None without one.

        A trigger that bypasses the guards joins only a pass of the same kind: another one may not
        be enough.
        """
        job = self.open_job(connection, record.key)
        if job is None or job.state is not JobState.RUNNING:
            return None
        alike = job.trigger == trigger and job.options == (options or {})
        if RULES[trigger].bypasses and not alike:
            return None
        return RequestedPass(record, trigger, job.id, attempts.last_id(connection, record.key))

    def request(
        self,
        connection: Connection,
        record: SessionRecord,
        trigger: Trigger,
        options: Mapping[str, Any] | None = None,
    ) -> RequestedPass:
        """Enqueue a pass.

        A trigger that bypasses the guards takes the session from a running micro or prune job; see
        docs/explanation/leases.md.
        """
        if RULES[trigger].bypasses:
            for kind in (JobKind.MICRO, JobKind.PRUNE):
                jobs.fence_out(connection, self.database, record.key, kind)
        due = jobs.enqueue(
            connection,
            self.database,
            record.key,
            kind=JobKind.BATCH,
            queue=BATCH_QUEUE,
            trigger=trigger,
            priority=RULES[trigger].priority,
            options=options,
            notified=self._notifier is not None,
        )
        last = attempts.last_id(connection, record.key)
        return RequestedPass(record, trigger, due.id, last, due)

    def join_or_request(
        self,
        connection: Connection,
        record: SessionRecord,
        trigger: Trigger,
        options: Mapping[str, Any] | None = None,
    ) -> RequestedPass | Compaction:
        """Join a running pass, else request one; return the result where a guard suppresses it."""
        running = self.join(connection, record, trigger, options)
        if running is not None:
            return running
        found = self.suppressed_by(connection, record, trigger)
        if found is not None:
            return self.without_pass(record, Status.SUPPRESSED, trigger, suppressed_by=found)
        return self.request(connection, record, trigger, options)

    def finish(self, requested: RequestedPass | Compaction, deadline: Deadline) -> Compaction:
        """Notify workers, wait until the deadline, and return the result.

        Must not be called inside a transaction. A given result is returned unchanged.
        """
        if isinstance(requested, Compaction):
            return requested
        if requested.due is not None and self._notifier is not None:
            self._notifier.notify(requested.due)
        snapshot = poll(
            lambda: self._snapshot(requested),
            lambda found: found.is_final(1000 * deadline.left),
            deadline,
        )
        with self.database.read() as connection:
            now = sessions.fetch(connection, requested.record.key)
            guard = None
            if snapshot.outcome == Outcome.SUPPRESSED:
                guard = self.suppressed_by(connection, now, requested.trigger, found_by_worker=True)
        return self._result(requested, snapshot, now, guard)

    def without_pass(
        self,
        record: SessionRecord,
        status: Status,
        trigger: Trigger | None = None,
        *,
        suppressed_by: Suppression | None = None,
    ) -> Compaction:
        """Return the result of a request for which no pass was enqueued."""
        return Compaction(
            status,
            trigger,
            self.measure(record),
            messages_before=record.live_messages,
            messages_after=record.live_messages,
            tokens_before=record.live_tokens,
            tokens_after=record.live_tokens,
            suppressed_by=suppressed_by,
            left_ms=suppressed_by.left_ms if suppressed_by else 0,
        )

    def _snapshot(self, requested: RequestedPass) -> JobSnapshot:
        with self.database.read() as connection:
            return JobSnapshot(
                job_records.standing(connection, self.database, requested.job_id),
                attempts.of_job(
                    connection, requested.record.key, requested.job_id, after=requested.after
                ),
            )

    def _result(
        self,
        requested: RequestedPass,
        snapshot: JobSnapshot,
        now: SessionRecord,
        guard: Suppression | None,
    ) -> Compaction:
        tried = snapshot.attempts
        first, last = (tried[0], tried[-1]) if tried else (None, None)
        return Compaction(
            status=snapshot.status,
            trigger=requested.trigger,
            size=self.measure(now),
            messages_before=first.messages_before if first else now.live_messages,
            messages_after=last.messages_after if last else now.live_messages,
            tokens_before=first.tokens_before if first else now.live_tokens,
            tokens_after=last.tokens_after if last else now.live_tokens,
            passes=snapshot.passes,
            changed=snapshot.changed,
            stuck=snapshot.stuck,
            outcome=snapshot.outcome,
            error_class=snapshot.error_class,
            suppressed_by=guard,
            left_ms=guard.left_ms if guard else snapshot.left_ms,
            job_id=requested.job_id,
        )
