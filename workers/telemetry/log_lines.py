"""Log lines about outcomes: an event's name and its fields, never text of a conversation.

They go through loggers of the standard library, so the application decides how they look. The
message is `EVENT KEY=VALUE …`; a formatter finds the fields in the record's `event` and `fields`.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from workers.telemetry.tracing import trace_id

Field: TypeAlias = str | int | float | bool | None
"""Type of a field; None leaves it out."""

_PLAIN = re.compile(r"[!#-<>-\[\]-~]+")


class LogEvent(StrEnum):
    """Name of a line's event; `LOG_LINES` describes each."""

    TURN_STORED = "turn.stored"
    RUN_ENDED = "run.ended"
    RUN_CRASHED = "run.crashed"
    RUN_DISCARDED = "run.discarded"
    OUTCOME = "pass.ended"
    MAINTENANCE_ENDED = "maintenance.ended"
    MODEL_FAILED = "model.failed"
    BREAKER_OPENED = "breaker.opened"
    BREAKER_CLOSED = "breaker.closed"


@dataclass(frozen=True, slots=True)
class LogLine:
    """An event with the fields that its line may have."""

    event: LogEvent
    meaning: str
    fields: tuple[str, ...]


_RUN = ("run", "event_id", "owner", "session", "kind")
_FACTS = ("trigger", "queue", "attempt", "seconds", "due")

LOG_LINES = (
    LogLine(
        LogEvent.TURN_STORED,
        "A gateway stored rows, or sent them again (`repeated`); `turn` if that closed one.",
        ("owner", "session", "event_id", "turn", "rows", "repeated", "job"),
    ),
    LogLine(
        LogEvent.RUN_ENDED,
        "A worker ended a run of a job; `outcome` is that of the last pass that had something to "
        "do, `due` how many jobs it enqueued.",
        (*_RUN, *_FACTS, "outcome", "passes"),
    ),
    LogLine(
        LogEvent.OUTCOME,
        "One pass ended.",
        (
            *_RUN, "outcome", "rows", "tokens_before", "tokens_after", "reason", "model",
            "error_class", "detail", "retry_seconds",
        ),
    ),
    LogLine(
        LogEvent.RUN_CRASHED,
        "A run ended with an unexpected error; `dead` if the job is dead-lettered.",
        (*_RUN, *_FACTS, "error", "dead", "retry_seconds"),
    ),
    LogLine(
        LogEvent.RUN_DISCARDED,
        "Another worker took the job meanwhile, so its results were discarded.",
        ("run", "kind", "session"),
    ),
    LogLine(
        LogEvent.MAINTENANCE_ENDED, "A maintenance task found something to do.", ("task", "found")
    ),
    LogLine(
        LogEvent.MODEL_FAILED,
        "A model of several failed and the next one is asked.",
        ("endpoint", "error_class", "detail"),
    ),
    LogLine(
        LogEvent.BREAKER_OPENED,
        "No worker sends requests to the model for that many seconds.",
        ("endpoint", "error_class", "failures", "seconds"),
    ),
    LogLine(LogEvent.BREAKER_CLOSED, "The model answers again.", ("endpoint",)),
)  # fmt: skip
"""All lines. `event_id` is the gateway's id of the event that caused a line, `run` the run of a job
(`JOB.FENCE`): a search for either finds every line from the gateway to the commit. With traces on,
each line has a `trace_id` too."""


def log_event(
    log: logging.Logger,
    event: LogEvent,
    fields: Mapping[str, Field],
    *,
    level: int = logging.INFO,
) -> None:
    """Log a line about `event`; fields that are None are left out."""
    if log.isEnabledFor(level):
        known = {
            name: round(value, 3) if isinstance(value, float) else value
            for name, value in fields.items()
            if value is not None
        }
        if (trace := trace_id()) is not None:
            known["trace_id"] = trace
        log.log(level, "%s", _Line(event, known), extra={"event": event.value, "fields": known})


class _Line:
    """Message of a line, formatted only if a handler needs it."""

    def __init__(self, event: LogEvent, fields: Mapping[str, Field]) -> None:
        self._event = event
        self._fields = fields

    def __str__(self) -> str:
        return " ".join([self._event, *(f"{k}={_shown(v)}" for k, v in self._fields.items())])


def _shown(value: Field) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case float():
            return f"{value:.3f}"
        case str() if _PLAIN.fullmatch(value):
            return value
        case _:
            # Quoted and in ASCII, so that a session's name from a gateway cannot forge a line.
            return json.dumps(value)
