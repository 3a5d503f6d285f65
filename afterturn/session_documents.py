"""Sessions as programs read them: values for JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from afterturn.guard_words import guard_sentence, is_over
from afterturn.overview import Fullness, Overview
from afterturn.words import moment_utc
from storage.guards import GuardName, GuardRecord
from storage.job_records import JobRecord
from storage.sessions import SessionRecord
from storage.summaries import SummaryRecord


def session_document(record: SessionRecord, fullness: Fullness) -> dict[str, Any]:
    """A session as it is listed."""
    threshold = fullness.threshold
    return {
        "id": record.id,
        "owner": record.owner,
        "source": record.source,
        "chat_id": record.chat_id,
        "thread_id": record.thread_id or None,
        "title": record.title,
        "model": record.model,
        "context_window": record.context_window,
        "reserved_output": record.reserved_output,
        "threshold_tokens": threshold.tokens if threshold else None,
        "occupancy": fullness.occupancy,
        "live_tokens": record.live_tokens,
        "live_messages": record.live_messages,
        "turns": record.turns,
        "turn_open": record.turn_open,
        "passes": record.passes,
        "tokens_saved": record.tokens_saved,
        "revision": record.revision,
        "started_at": moment_utc(record.started_at),
        "active_at": moment_utc(record.active_at),
        "ended_at": moment_utc(record.ended_at),
    }


def overview_document(overview: Overview) -> dict[str, Any]:
    """All that is known of a session."""
    return {
        **session_document(overview.session, overview.fullness),
        "threshold_reason": overview.fullness.why,
        "next_position": overview.session.next_position,
        "cursor": overview.cursor,
        "batch_summary": summary_document(overview.batch_summary),
        "rolling_summary": summary_document(overview.rolling_summary),
        "guards": [guard_document(name, guard) for name, guard in sorted(overview.guards.items())],
        "open_jobs": [job_document(job) for job in overview.open_jobs],
        "failed_tries_in_a_row": overview.failures,
        "attempts": [
            {
                **asdict(attempt),
                "occupancy": attempt.occupancy,
                "undone": attempt.summary_id in overview.undone,
            }
            for attempt in overview.attempts
        ],
    }


def job_document(job: JobRecord) -> dict[str, Any]:
    """A job that is open."""
    return {
        "id": job.id,
        "kind": job.kind,
        "trigger": job.trigger,
        "state": job.state,
        "queue": job.queue,
        "run_at": moment_utc(job.run_at),
        "attempt": job.attempt,
        "tries": job.tries,
        "reason": job.reason,
    }


def summary_document(summary: SummaryRecord | None) -> dict[str, Any] | None:
    """A summary that is shown, without its text."""
    if summary is None:
        return None
    return {
        "id": summary.id,
        "kind": summary.kind,
        "tokens": summary.tokens,
        "first_position": summary.first_position,
        "last_position": summary.last_position,
    }


def guard_document(name: GuardName, guard: GuardRecord) -> dict[str, Any]:
    """A guard with what it says."""
    return {
        "name": name,
        "says": guard_sentence(name, guard),
        "count": guard.count,
        "subject": guard.subject,
        "detail": guard.detail,
        "until": moment_utc(guard.until_at),
        "left_seconds": guard.left_ms / 1000,
        "over": is_over(guard),
    }
