"""Read everything that the metrics of a deployment are made of, at one moment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from celery import Celery
from sqlalchemy import Connection

from afterturn.broker import (
    BrokerSilent,
    TransportMissing,
    broker_application,
    queue_lengths,
    queues_of_workers,
)
from afterturn.status import QueueStatus, fetch_queues
from storage import endpoints, measures
from storage.conversations import sessions
from storage.endpoints import EndpointState
from storage.engine import Database
from storage.measures import Lag, Leases, Series, SessionSize
from workers.policy.threshold import NoUsableWindowError, session_threshold
from workers.settings import CompressionSettings
from workers.telemetry import tally

DAY_MS = 86_400_000
MOST_SESSIONS = 10_000
MOST_UNCOUNTED = 2_000
"""Attempts that a scrape counts by itself. Where there are more, they are added to the totals."""

_REPLIES_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Deployment:
    """What the database knows. `occupancies` are shares of the threshold, 1.0 is full."""

    queues: Sequence[QueueStatus]
    retrying: Mapping[str, int]
    leases: Leases
    lag: Lag
    cooldowns: int
    locked: int
    placeholders: int
    endpoints: Sequence[EndpointState]
    occupancies: Sequence[float]
    totals: Counter[Series]


@dataclass(frozen=True, slots=True)
class Delivery:
    """What the broker knows: messages by queue, None where it did not answer, and how many
    workers answered that work a queue."""

    messages: Mapping[str, int] | None
    workers: Mapping[str, int]


def read_deployment(database: Database, settings: CompressionSettings) -> Deployment:
    """Read the database. Raises `StorageError`."""
    found, uncounted = _read(database, settings)
    if uncounted > MOST_UNCOUNTED:
        tally.count_tries(database)
    return found


def read_delivery(url: str) -> Delivery:
    """Ask broker and workers, for some seconds at the most."""
    try:
        with broker_application(url) as app:
            return Delivery(queue_lengths(app), _workers(app))
    except (TransportMissing, BrokerSilent):
        return Delivery(None, {})


def _read(database: Database, settings: CompressionSettings) -> tuple[Deployment, int]:
    with database.read() as connection:
        totals, uncounted = tally.current(connection)
        deployment = Deployment(
            queues=fetch_queues(connection, database),
            retrying=measures.retrying(connection),
            leases=measures.leases(connection, database),
            lag=measures.lag(connection, database),
            cooldowns=measures.cooldowns(connection, database),
            locked=measures.locked(connection, database),
            placeholders=measures.placeholders(connection),
            endpoints=endpoints.states(connection, database),
            occupancies=_occupancies(connection, database, settings),
            totals=totals,
        )
    return deployment, uncounted


def _occupancies(
    connection: Connection, database: Database, settings: CompressionSettings
) -> list[float]:
    sizes = measures.active_sizes(connection, database, within_ms=DAY_MS, limit=MOST_SESSIONS)
    # Sessions of the same model and window share a threshold.
    alike = {_limits(size): size.key for size in sizes}
    ones = sessions.fetch_many(connection, list(alike.values()))
    thresholds: dict[tuple[object, ...], int] = {}
    for limits, key in alike.items():
        try:
            thresholds[limits] = session_threshold(ones[key], settings).tokens
        except NoUsableWindowError:
            continue
    return [
        size.live_tokens / thresholds[_limits(size)]
        for size in sizes
        if _limits(size) in thresholds
    ]


def _limits(size: SessionSize) -> tuple[object, ...]:
    return size.model, size.context_window, size.declared_window, size.reserved_output


def _workers(app: Celery) -> Mapping[str, int]:
    try:
        answers = queues_of_workers(app, seconds=_REPLIES_SECONDS)
    except BrokerSilent:
        return {}
    return Counter(queue for queues in answers.values() for queue in queues)
