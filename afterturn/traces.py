"""Where spans of this process go."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from afterturn.exits import CommandError, Exit
from afterturn.installation import OURS, version_of

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
"""Variables of OpenTelemetry: where one of them is set, spans are sent there over HTTP."""


@contextmanager
def traces(environ: Mapping[str, str], *, service: str) -> Iterator[None]:
    """Send spans to where OTEL_EXPORTER_OTLP_ENDPOINT says, until the block ends.

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
