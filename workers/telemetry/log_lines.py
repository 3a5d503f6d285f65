"""Log lines about outcomes: an event's name and its fields, never text of a conversation.

Loggers of the standard library carry them, so the application decides how they look. The message is
`EVENT KEY=VALUE …`; a formatter that wants the fields finds them in the record's `event` and
`fields`.
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
"""What a field may be; None leaves it out."""

_PLAIN = re.compile(r"[!#-<>-\[\]-~]+")


class LogEvent(StrEnum):
    """Name of a line's event; `LOG_LINES` says more of each."""

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
        "A gateway stored rows, or sent them again (`repeated`); `turn` where that closed one.",
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
        "A run ended with an unexpected error; `dead` where the job is given up.",
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
        "No worker asks the model for that many seconds.",
        ("endpoint", "error_class", "failures", "seconds"),
    ),
    LogLine(LogEvent.BREAKER_CLOSED, "The model answers again.", ("endpoint",)),
)  # fmt: skip
"""Every line. `event_id` is a gateway's id of the event that a line goes back to, `run` the one
run of a job (`JOB.FENCE`): a search for either finds all from the gateway to the commit.
Where traces are on, each line has a `trace_id` too."""


def as_markdown() -> str:
    """Return the lines as a Markdown table."""
    rows = [f"| `{line.event}` | {line.meaning} | {', '.join(line.fields)} |" for line in LOG_LINES]
    return "\n".join(["| line | meaning | fields |", "|---|---|---|", *rows, ""])


def log_event(
    log: logging.Logger,
    event: LogEvent,
    fields: Mapping[str, Field],
    *,
    level: int = logging.INFO,
) -> None:
    """Log a line about `event`; a field that is None is left out."""
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
    """Message of a line, which becomes text only where a handler formats it."""

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
            # In quotes and in ASCII: what a gateway calls a session begins no line of its own.
            return json.dumps(value)
