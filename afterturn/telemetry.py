"""Where log lines and spans of this process go, and how a line looks."""

from __future__ import annotations

import json
import logging
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, TextIO

from afterturn.exits import CommandError, Exit
from afterturn.installation import OURS, version_of

_FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"


class LogLevel(StrEnum):
    """What a long-running command logs at least."""

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
    message of a line without an event.

    An error is shown by its class and the frames it came through, without its own text, which may
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
    """Writes to the current standard error, which a live display replaces for a while."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


def log_to_stderr(level: LogLevel, format_: LogFormat = LogFormat.TEXT) -> None:
    """Send all logs of this process from `level` on to standard error."""
    handler = _CurrentStderr()
    handler.setFormatter(JsonLines() if format_ is LogFormat.JSON else logging.Formatter(_FORMAT))
    logging.basicConfig(level=level.value.upper(), handlers=[handler], force=True)
    if level is not LogLevel.DEBUG:
        # It logs every check of the revision at level info.
        logging.getLogger("alembic").setLevel(logging.WARNING)


ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
"""Variables of OpenTelemetry: where one of them is set, spans are sent there over HTTP."""


@contextmanager
def traces(environ: Mapping[str, str], *, service: str) -> Iterator[None]:
    """Send spans to OTEL_EXPORTER_OTLP_ENDPOINT until the block ends.

    `service` is the name unless OTEL_SERVICE_NAME says otherwise. Raises `CommandError` where
    that is wanted and OpenTelemetry is not installed.
    """
    off = environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
    if off or not any(environ.get(name) for name in ENDPOINTS):
        yield
        return
    try:
        # An optional extra, and slow to load.
        from opentelemetry import trace  # noqa: PLC0415
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415
            OTLPSpanExporter,
        )
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    except ImportError as error:
        raise CommandError(
            f"{ENDPOINTS[0]} asks for traces, but OpenTelemetry is not installed: "
            "`pip install afterturn[traces]`, or unset it",
            Exit.CONFIGURATION,
        ) from error
    facts = {"service.name": environ.get("OTEL_SERVICE_NAME") or service}
    provider = TracerProvider(
        resource=Resource.create({**facts, "service.version": version_of(OURS)})
    )
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    try:
        yield
    finally:
        provider.shutdown()
