"""Admission to an endpoint: one gate for all workers, kept in the database."""

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
    """Leave to send one request to `endpoint`.

    `tokens` are reserved for it in minute number `minute`; `probe` is the time until which it
    holds the place of the one probe, None where the endpoint is not in doubt.
    """

    endpoint: str
    minute: int
    tokens: int
    probe: int | None = None


@dataclass(frozen=True, slots=True)
class Blocked:
    """Nobody may ask now; it is worth looking again after `wait_ms`.

    `error_class` is BREAKER_OPEN where the endpoint counts as down, and LIMIT_REACHED where it may
    well answer: the minute is used up, or somebody else's probe of it runs.
    """

    error_class: ErrorClass
    wait_ms: int


class Gate(Protocol):
    """Asked before a request and informed of its end, exactly once for each permit."""

    def admit(
        self, endpoint: str, limits: Limits, *, tokens: int, longest_seconds: float
    ) -> Permit | Blocked:
        """Admit one request of about `tokens` that takes `longest_seconds` at most, or say why not.

        Raises `StorageError` where that cannot be known.
        """

    def peek(self, endpoint: str, limits: Limits) -> Blocked | None:
        """Return why `admit` would turn down even the smallest request. Takes no place.

        Raises `StorageError` where that cannot be known.
        """

    def answered(self, permit: Permit, *, used_tokens: int | None) -> None:
        """Record that the endpoint answered; `used_tokens` is what it counted, None where it did
        not tell."""

    def failed(self, permit: Permit, error: SummariserError) -> None:
        """Record that the request failed."""

    def given_up(self, permit: Permit) -> None:
        """Record that the request was given up before its end."""


class SharedGate:
    """The gate of every worker on one database, as short transactions on the endpoint's row.

    Safe to use from many threads. A database that fails after the request keeps nobody from the
    answer, which is paid for: that is logged, and a probe's place frees itself in time.
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

        self._note(permit, change)

    def failed(self, permit: Permit, error: SummariserError) -> None:
        """See `Gate`. What was reserved stays so: some endpoints count what they turn down."""
        self._note(
            permit,
            lambda found: breaker.failed(found, permit.probe, error.error_class, error.retry_after),
        )

    def given_up(self, permit: Permit) -> None:
        """See `Gate`."""
        if permit.probe is not None:
            self._note(permit, lambda found: breaker.given_up(found, permit.probe))

    def _note(self, permit: Permit, change: Callable[[EndpointRecord], EndpointRecord]) -> None:
        try:
            with self._database.write() as connection:
                before = endpoints.lock(connection, self._database, permit.endpoint)
                after = change(before)
                if after != before:
                    endpoints.write(connection, after)
        except StorageError as error:
            log.warning("how a request to %s ended was not noted: %s", permit.endpoint, error)
            return
        _tell(before, after)


def _blocked(found: EndpointRecord, limits: Limits, tokens: int) -> Blocked | None:
    if wait_ms := breaker.wait_ms(found):
        # A caller that cannot wait falls back at once for an open breaker, but not for mere doubt.
        down = breaker.is_open(found)
        return Blocked(ErrorClass.BREAKER_OPEN if down else ErrorClass.LIMIT_REACHED, wait_ms)
    full_ms = rate_limits.wait_ms(found, limits, tokens)
    return Blocked(ErrorClass.LIMIT_REACHED, full_ms) if full_ms else None


def _tell(before: EndpointRecord, after: EndpointRecord) -> None:
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
