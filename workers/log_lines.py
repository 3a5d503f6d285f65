"""Lines in the log that tell of an outcome: an event's name and its fields, never text of a
conversation.

Loggers of the standard library carry them, so whoever sets up logging decides how they look. The
message is `EVENT KEY=VALUE …`; a formatter that wants the fields finds them in the record's
`event` and `fields`.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import TypeAlias

Field: TypeAlias = str | int | float | bool | None
"""What a field may be; None leaves it out."""

_PLAIN = re.compile(r"[!#-<>-\[\]-~]+")


class LogEvent(StrEnum):
    """Each event, with its fields.

    `event_id` is a gateway's id of the event that a line goes back to, `run` the one run of a job
    (`JOB.FENCE`): whoever looks for either finds everything from the gateway to the commit.
    """

    TURN_STORED = "turn.stored"
    """A gateway stored rows: owner, session, event_id, turn (where one was closed), rows, job
    (where one is due now). Of a repetition too, with repeated=true."""
    RUN_ENDED = "run.ended"
    """A worker ended a run of a job: run, event_id, owner, session, kind, trigger, queue, attempt,
    outcome (of its last pass), passes, seconds, due (jobs that it leaves due)."""
    RUN_CRASHED = "run.crashed"
    """A run ended with an error that nobody foresaw: as run.ended, with error (its class), dead and
    retry_seconds in the place of outcome and passes."""
    RUN_DISCARDED = "run.discarded"
    """Somebody else took the job meanwhile, so its results were thrown away: run, kind, session."""
    OUTCOME = "pass.ended"
    """What became of one pass: run, event_id, owner, session, kind, outcome, and, as far as known,
    rows, tokens_before, tokens_after, reason, model, error_class, detail, retry_seconds."""
    UPKEEP_ENDED = "upkeep.ended"
    """The schedule found something to do: task, found."""
    MODEL_FAILED = "model.failed"
    """A model of several failed and the next one is asked: endpoint, error_class, detail."""
    BREAKER_OPENED = "breaker.opened"
    """Nobody asks a model for a while: endpoint, error_class, failures, seconds."""
    BREAKER_CLOSED = "breaker.closed"
    """The model answers again: endpoint."""


def tell(
    log: logging.Logger,
    event: LogEvent,
    fields: Mapping[str, Field],
    *,
    level: int = logging.INFO,
) -> None:
    """Write a line about `event`; a field that is None is left out."""
    if log.isEnabledFor(level):
        known = {name: value for name, value in fields.items() if value is not None}
        log.log(level, "%s", _Line(event, known), extra={"event": event.value, "fields": known})


class _Line:
    """Becomes text only where somebody wants it."""

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
