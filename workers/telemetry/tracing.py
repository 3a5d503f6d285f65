"""OpenTelemetry spans if its API is installed; otherwise nothing happens.

A span has names and figures, never text of a conversation, not even the text of an error that
passed through it. The application sets up the tracer provider; `afterturn worker` does so by the
usual OTEL_… variables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

try:
    from opentelemetry import trace as _api
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError:
    INSTALLED = False
else:
    INSTALLED = True

SCOPE = "afterturn"


@dataclass(frozen=True, slots=True)
class Span:
    """A running span. `carrier` lets another process continue the trace: it is stored with jobs
    that the span enqueues, and empty without tracing."""

    carrier: Mapping[str, str] = field(default_factory=dict)
    _span: Any = None

    def record(self, **attributes: str | int | float | bool | None) -> None:
        """Add attributes to the span."""
        if self._span is not None:
            self._span.set_attributes(_known(attributes))


@contextmanager
def span(
    name: str,
    *,
    caused_by: Mapping[str, str] | None = None,
    **attributes: str | int | float | bool | None,
) -> Iterator[Span]:
    """Run the block in a span: a child of the current one, or of the span in `caused_by`.

    An error that passes through is recorded by its class.
    """
    if not INSTALLED:
        yield Span()
        return
    context = TraceContextTextMapPropagator().extract(caused_by) if caused_by else None
    with _api.get_tracer(SCOPE).start_as_current_span(
        f"{SCOPE}.{name}",
        context=context,
        attributes=_known(attributes),
        record_exception=False,
        set_status_on_exception=False,
    ) as running:
        try:
            yield Span(carrier(), running)
        except BaseException as error:
            running.set_status(_api.StatusCode.ERROR, type(error).__name__)
            raise


def carrier() -> dict[str, str]:
    """Return what another process needs to continue the current trace; empty without tracing."""
    found: dict[str, str] = {}
    if INSTALLED:
        TraceContextTextMapPropagator().inject(found)
    return found


def trace_id() -> str | None:
    """Return the id of the current trace, as 32 hexadecimal digits."""
    if not INSTALLED:
        return None
    context = _api.get_current_span().get_span_context()
    return f"{context.trace_id:032x}" if context.is_valid else None


def _known(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{SCOPE}.{name}": value for name, value in attributes.items() if value is not None}
