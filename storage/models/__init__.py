"""The tables, one schema for SQLite and PostgreSQL.

Times are milliseconds since 1970 (UTC) by the database's clock. Flags are 0 or 1. Predicates of
partial indexes are literal text here and in the statements that rely on them: a bound parameter
there makes PostgreSQL's generic plan miss the index.
"""

from __future__ import annotations

from storage.models.base import (
    Base,
    BigKey,
    table_of,
)
from storage.models.conversations import (
    AGENT_ROW,
    ENDED,
    IDLE_UNSEEN,
    LIVE,
    LIVE_CALLS,
    LIVE_MARKER,
    LIVE_PLACEHOLDER,
    MESSAGE_ROW,
    OPENS_TURN,
    PRUNED,
    REPORTED,
    UNDECIDED,
    Cursor,
    Message,
    Session,
    Summary,
    SystemPrompt,
    TurnEvent,
)
from storage.models.operations import (
    ASKED_IN_BULK,
    RUNNING_BULK,
    WAITING_IN_BULK,
    AuditEntry,
    BulkRun,
    BulkSession,
    ImportedSession,
)
from storage.models.recall import (
    SearchGeneration,
    SearchPending,
)
from storage.models.schedule import (
    PAUSED_QUEUE,
    QueueState,
    ScheduleSlot,
)
from storage.models.work import (
    BULK_QUEUE,
    COOLDOWN_GUARD,
    DEAD_JOB,
    FAILED_JOB,
    OPEN_JOB,
    RINGABLE_JOB,
    RUNG_JOB,
    RUNNING_JOB,
    WAITING_BULK_JOB,
    Answer,
    Attempt,
    Endpoint,
    Guard,
    Job,
    Signal,
    Total,
)

__all__ = [
    "AGENT_ROW",
    "ASKED_IN_BULK",
    "BULK_QUEUE",
    "COOLDOWN_GUARD",
    "DEAD_JOB",
    "ENDED",
    "FAILED_JOB",
    "IDLE_UNSEEN",
    "LIVE",
    "LIVE_CALLS",
    "LIVE_MARKER",
    "LIVE_PLACEHOLDER",
    "MESSAGE_ROW",
    "OPENS_TURN",
    "OPEN_JOB",
    "PAUSED_QUEUE",
    "PRUNED",
    "REPORTED",
    "RINGABLE_JOB",
    "RUNG_JOB",
    "RUNNING_BULK",
    "RUNNING_JOB",
    "UNDECIDED",
    "WAITING_BULK_JOB",
    "WAITING_IN_BULK",
    "Answer",
    "Attempt",
    "AuditEntry",
    "Base",
    "BigKey",
    "BulkRun",
    "BulkSession",
    "Cursor",
    "Endpoint",
    "Guard",
    "ImportedSession",
    "Job",
    "Message",
    "QueueState",
    "ScheduleSlot",
    "SearchGeneration",
    "SearchPending",
    "Session",
    "Signal",
    "Summary",
    "SystemPrompt",
    "Total",
    "TurnEvent",
    "table_of",
]
