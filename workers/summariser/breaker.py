"""The circuit breaker of an endpoint: when requests are blocked, and which request is the probe.

Three failures in a row open the breaker: no request is sent for a while, then one at a time. A
closed breaker also admits one request at a time, but without a pause, while the endpoint is
doubtful: it has never answered yet, or its last request failed.

A request that is sent alone is a probe. It occupies the only place until it ends, or until the time
by which it must have ended, so a probe whose process died does not block others forever. `probe` is
that time, None for a request that is not a probe; it distinguishes one probe from the next.

Each rule takes the stored record of an endpoint and returns the record to store, the same value
where nothing changes.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum, auto

from storage.endpoints import EndpointRecord
from workers.summariser.contract import ErrorClass

OPEN_AFTER = 3
"""Failures in a row that open the breaker: as many as one job may cause at an endpoint."""

FIRST_OPEN_MS = 30_000
LONGEST_OPEN_MS = 600_000
"""The breaker opens for half a minute; each failed probe doubles that, up to ten minutes."""

RECHECK_MS = 10_000
"""Longest wait while a probe of an open breaker runs: most end long before their limit."""

RECHECK_CLOSED_MS = 2_000
"""The same while the breaker is closed, when a probe is most likely answered within seconds."""

DOUBT_MS = 30_000
"""Longest time for which a probe blocks other requests while the breaker is closed."""


class Verdict(Enum):
    """A conclusion from the end of a request about its endpoint."""

    ANSWERS = auto()
    """It answers, be the answer good or bad."""
    UNCLEAR = auto()
    """It neither answered nor refused the request."""
    DOWN = auto()
    """It would not have answered any request."""


_DOWN = frozenset(
    {
        ErrorClass.CONNECTION,
        ErrorClass.RATE_LIMITED,
        ErrorClass.SERVER_ERROR,
        ErrorClass.AUTH,
        ErrorClass.NOT_FOUND,
        ErrorClass.FIRST_BYTE_TIMEOUT,
    }
)

# These began to answer; of a server that hangs, later requests get no first byte, which counts.
# The limits of silence and of the whole call are the caller's, tighter for hygiene. An error page
# does not come from a model, so it proves nothing either.
_UNCLEAR = frozenset(
    {
        ErrorClass.IDLE_TIMEOUT,
        ErrorClass.TOTAL_TIMEOUT,
        ErrorClass.INTERRUPTED,
        ErrorClass.ERROR_PAGE,
    }
)


def verdict_of(error_class: ErrorClass) -> Verdict:
    """Return the verdict of a failure on the endpoint.

    A refusal (BAD_REQUEST, CONTEXT_OVERFLOW) concerns that request alone: the endpoint answers
    others.
    """
    if error_class in _DOWN:
        return Verdict.DOWN
    return Verdict.UNCLEAR if error_class in _UNCLEAR else Verdict.ANSWERS


def is_open(endpoint: EndpointRecord) -> bool:
    """Return whether the endpoint counts as down."""
    return endpoint.open_until is not None


def is_doubtful(endpoint: EndpointRecord) -> bool:
    """Return whether the endpoint gets only one request at a time.

    That is while the breaker is open, or the last request failed, or none was ever answered. So an
    outage costs few requests, however many callers there are.
    """
    return is_open(endpoint) or endpoint.failures > 0 or endpoint.answered_at is None


def wait_ms(endpoint: EndpointRecord) -> int:
    """Return the milliseconds until the next check is worthwhile; 0 when a request may be sent."""
    if not is_doubtful(endpoint):
        return 0
    if (pause := (endpoint.open_until or 0) - endpoint.now) > 0:
        return pause
    taken = (endpoint.probe_until or 0) - endpoint.now
    return min(max(taken, 0), RECHECK_MS if is_open(endpoint) else RECHECK_CLOSED_MS)


def begun(endpoint: EndpointRecord, longest_ms: int) -> EndpointRecord:
    """Record that a request is sent that ends within `longest_ms`; a probe if doubtful.

    While the breaker is closed a probe blocks others for half a minute at most: one whose process
    died must not block them for as long as a model may think.
    """
    if not is_doubtful(endpoint):
        return endpoint
    held_ms = longest_ms if is_open(endpoint) else min(longest_ms, DOUBT_MS)
    return replace(endpoint, probe_until=endpoint.now + held_ms)


def answered(endpoint: EndpointRecord, probe: int | None) -> EndpointRecord:
    """Record an answer, good or bad: the endpoint is up and every request may be sent.

    Only a probe closes an open breaker: a request from before it opened proves nothing.
    """
    if is_open(endpoint) and not _holds(endpoint, probe):
        return endpoint
    return replace(
        endpoint,
        failures=0,
        open_ms=0,
        open_until=None,
        probe_until=None,
        error_class=None,
        answered_at=endpoint.now,
    )


def failed(
    endpoint: EndpointRecord, probe: int | None, error_class: ErrorClass, retry_after: float | None
) -> EndpointRecord:
    """Record that a request failed.

    The breaker opens at the third failure in a row, and again for twice as long when a probe fails;
    never for less than the `retry_after` seconds that the endpoint requested, nor for more than ten
    minutes. While it is closed, an unclear end counts neither way: it only frees the probe's place.
    """
    verdict, held = verdict_of(error_class), _holds(endpoint, probe)
    if verdict is Verdict.ANSWERS:
        return answered(endpoint, probe)
    if is_open(endpoint) and not held:
        return endpoint
    if verdict is Verdict.UNCLEAR and not is_open(endpoint):
        return given_up(endpoint, probe)
    counted = replace(
        given_up(endpoint, probe), failures=endpoint.failures + 1, error_class=error_class.value
    )
    if is_open(endpoint):
        return _opened(counted, 2 * endpoint.open_ms, retry_after)
    if counted.failures >= OPEN_AFTER:
        return _opened(counted, FIRST_OPEN_MS, retry_after)
    return counted


def given_up(endpoint: EndpointRecord, probe: int | None) -> EndpointRecord:
    """Record that the sender gave the request up; the next one may be the probe."""
    return replace(endpoint, probe_until=None) if _holds(endpoint, probe) else endpoint


def _holds(endpoint: EndpointRecord, probe: int | None) -> bool:
    return probe is not None and endpoint.probe_until == probe


def _opened(endpoint: EndpointRecord, open_ms: int, retry_after: float | None) -> EndpointRecord:
    open_ms = min(max(open_ms, FIRST_OPEN_MS), LONGEST_OPEN_MS)
    asked = min(int(1000 * (retry_after or 0.0)), LONGEST_OPEN_MS)
    return replace(
        endpoint,
        open_ms=open_ms,
        open_until=endpoint.now + max(open_ms, asked),
        # A probe that still runs was sent before, so it must neither decide nor keep the place.
        probe_until=None,
    )
