"""Limits of requests and tokens a minute, for all workers together.

Minutes are those of the database's clock. The estimated tokens of a request are reserved before it
is sent, and corrected when the endpoint has counted them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from storage.endpoints import MINUTE_MS, EndpointRecord


@dataclass(frozen=True, slots=True)
class Limits:
    """Requests and tokens per minute; None for no limit."""

    requests: int | None = None
    tokens: int | None = None


def wait_ms(endpoint: EndpointRecord, limits: Limits, tokens: int) -> int:
    """Return the milliseconds to the next minute where this one has no room for `tokens`, else 0.

    A request that is larger than the tokens of a whole minute is admitted where none was used yet:
    it would never be sent otherwise.
    """
    requests_used, tokens_used = endpoint.used
    full = limits.requests is not None and requests_used >= limits.requests
    if limits.tokens is not None and tokens_used:
        full |= tokens_used + tokens > limits.tokens
    return MINUTE_MS - endpoint.now % MINUTE_MS if full else 0


def reserved(endpoint: EndpointRecord, tokens: int) -> EndpointRecord:
    """Record that a request of about `tokens` is sent now."""
    requests_used, tokens_used = endpoint.used
    return replace(
        endpoint,
        minute=endpoint.this_minute,
        requests=requests_used + 1,
        tokens=tokens_used + tokens,
    )


def settled(endpoint: EndpointRecord, minute: int, reserved: int, used: int) -> EndpointRecord:
    """Record that a request took `used` tokens where `reserved` were recorded in `minute`.

    A past minute stays as it was.
    """
    if endpoint.minute != minute:
        return endpoint
    return replace(endpoint, tokens=max(0, endpoint.tokens - reserved + used))
