"""Where log lines go, and how they look: standard error, whatever it is at that moment."""

from __future__ import annotations

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, TextIO

_FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"


class LogLevel(StrEnum):
    """How much a long-running command says."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    """How a line of the log looks."""

    TEXT = "text"
    JSON = "json"


class JsonLines(logging.Formatter):
    """One JSON object a line, in ASCII: time (UTC), level, logger, event and its fields, or the
    message of a line that tells of no event.

    An error is told by its class and the frames it came through, without its own text, which may
    quote a conversation.
    """

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
        }
        event = getattr(record, "event", None)
        if isinstance(event, str):
            line |= {"event": event, **getattr(record, "fields", {})}
        else:
            line["message"] = record.getMessage()
        if record.exc_info and record.exc_info[0] is not None:
            kind, _, trace = record.exc_info
            line |= {"error": kind.__name__, "frames": traceback.format_tb(trace)}
        return json.dumps(line, default=str)


class _CurrentStderr(logging.StreamHandler[TextIO]):
    """Writes to the standard error of now: a live display puts itself in its place for a while."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


def log_to_stderr(level: LogLevel, format_: LogFormat = LogFormat.TEXT) -> None:
    """Send all logs of this process from `level` on to standard error."""
    handler = _CurrentStderr()
    handler.setFormatter(JsonLines() if format_ is LogFormat.JSON else logging.Formatter(_FORMAT))
    logging.basicConfig(level=level.value.upper(), handlers=[handler], force=True)
    if level is not LogLevel.DEBUG:
        # It tells at level info about every look at the revision.
        logging.getLogger("alembic").setLevel(logging.WARNING)
