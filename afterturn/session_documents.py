"""Sessions as programs read them: values for JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from afterturn.overview import Fullness, Overview
from afterturn.words import moment_utc
from storage.sessions import SessionRecord


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
    summary = overview.rolling_summary
    return {
        **session_document(overview.session, overview.fullness),
        "threshold_reason": overview.fullness.why,
        "next_position": overview.session.next_position,
        "cursor": overview.cursor,
        "rolling_summary": None
        if summary is None
        else {
            "tokens": summary.tokens,
            "first_position": summary.first_position,
            "last_position": summary.last_position,
        },
        "open_jobs": [
            {
                "id": job.id,
                "kind": job.kind,
                "state": job.state,
                "queue": job.queue,
                "run_at": moment_utc(job.run_at),
                "attempt": job.attempt,
                "reason": job.reason,
            }
            for job in overview.open_jobs
        ],
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
