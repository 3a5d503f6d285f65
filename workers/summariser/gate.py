"""Admission to an endpoint: one gate for all workers, stored in the database."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from storage import endpoints
from storage.endpoints import EndpointRecord
from storage.engine import Database
from storage.errors import StorageError
from workers.summariser import breaker, rate_limits
from workers.summariser.contract import ErrorClass, SummariserError
from workers.summariser.rate_limits import Limits
from workers.telemetry.log_lines import Field, LogEvent, log_event

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Permit:
    """The permission to send one request to `endpoint`.

    `tokens` are reserved for it in minute number `minute`; `probe` is the time until which it
    occupies the place of the only probe, None where the endpoint is not doubtful.
    """

    endpoint: str
    minute: int
    tokens: int
    probe: int | None = None


@dataclass(frozen=True, slots=True)
class Blocked:
    """The refusal of a request; the next check is worthwhile after `wait_ms`.

    `error_class` is BREAKER_OPEN where the endpoint counts as down, and LIMIT_REACHED where it may
    well answer: the minute is used up, or the probe of another worker runs.
    """

    error_class: ErrorClass
    wait_ms: int


class Gate(Protocol):
    """Admission of requests. Each permit is followed by exactly one record of its end."""

    def admit(
        self, endpoint: str, limits: Limits, *, tokens: int, longest_seconds: float
    ) -> Permit | Blocked:
        """Admit one request of about `tokens` that takes at most `longest_seconds`, or refuse it.

        Raises `StorageError` where the state cannot be read.
        """

    def peek(self, endpoint: str, limits: Limits) -> Blocked | None:
        """Return the reason why `admit` would refuse even the smallest request. Occupies no place.

        Raises `StorageError` where the state cannot be read.
        """

    def answered(self, permit: Permit, *, used_tokens: int | None) -> None:
        """Record that the endpoint answered; `used_tokens` is its count, None if not reported."""

    def failed(self, permit: Permit, error: SummariserError) -> None:
        """Record that the request failed."""

    def given_up(self, permit: Permit) -> None:
        """Record that the request was given up before its end."""


class SharedGate:
    """The gate of every worker on one database, as short transactions on the endpoint's row.

    Safe to use from many threads. A database that fails after the request does not withhold the
    answer, which is paid for: the failure is logged, and the place of a probe frees itself in time.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def admit(
        self, endpoint: str, limits: Limits, *, tokens: int, longest_seconds: float
    ) -> Permit | Blocked:
        """See `Gate`."""
        with self._database.write() as connection:
            found = endpoints.lock(connection, self._database, endpoint)
            if (blocked := _blocked(found, limits, tokens)) is not None:
                return blocked
            begun = breaker.begun(rate_limits.reserved(found, tokens), int(1000 * longest_seconds))
            endpoints.write(connection, begun)
        return Permit(endpoint, begun.minute, tokens, begun.probe_until)

    def peek(self, endpoint: str, limits: Limits) -> Blocked | None:
        """See `Gate`."""
        with self._database.read() as connection:
            found = endpoints.find(connection, self._database, endpoint)
        return None if found is None else _blocked(found, limits, tokens=0)

    def answered(self, permit: Permit, *, used_tokens: int | None) -> None:
        """See `Gate`."""

        def change(found: EndpointRecord) -> EndpointRecord:
            well = breaker.answered(found, permit.probe)
            if used_tokens is None:
                return well
            return rate_limits.settled(well, permit.minute, permit.tokens, used_tokens)

        self._record(permit, change)

    def failed(self, permit: Permit, error: SummariserError) -> None:
        """See `Gate`. The reservation stays: some endpoints count refused requests."""
        self._record(
            permit,
            lambda found: breaker.failed(found, permit.probe, error.error_class, error.retry_after),
        )

    def given_up(self, permit: Permit) -> None:
        """See `Gate`."""
        if permit.probe is not None:
            self._record(permit, lambda found: breaker.given_up(found, permit.probe))

    def _record(self, permit: Permit, change: Callable[[EndpointRecord], EndpointRecord]) -> None:
        try:
            with self._database.write() as connection:
                before = endpoints.lock(connection, self._database, permit.endpoint)
                after = change(before)
                if after != before:
                    endpoints.write(connection, after)
        except StorageError as error:
            log.warning("the end of a request to %s was not recorded: %s", permit.endpoint, error)
            return
        _log_change(before, after)


def _blocked(found: EndpointRecord, limits: Limits, tokens: int) -> Blocked | None:
    if wait_ms := breaker.wait_ms(found):
        # A caller that cannot wait falls back at once for an open breaker, but not for a doubtful
        # endpoint.
        down = breaker.is_open(found)
        return Blocked(ErrorClass.BREAKER_OPEN if down else ErrorClass.LIMIT_REACHED, wait_ms)
    full_ms = rate_limits.wait_ms(found, limits, tokens)
    return Blocked(ErrorClass.LIMIT_REACHED, full_ms) if full_ms else None


def _log_change(before: EndpointRecord, after: EndpointRecord) -> None:
    if after.open_until is None and before.open_until is not None:
        log_event(log, LogEvent.BREAKER_CLOSED, {"endpoint": after.name})
    elif after.open_until is not None and after.open_until != before.open_until:
        facts: dict[str, Field] = {
            "endpoint": after.name,
            "error_class": after.error_class,
            "failures": after.failures,
            "seconds": (after.open_until - after.now) / 1000,
        }
        log_event(log, LogEvent.BREAKER_OPENED, facts, level=logging.WARNING)
