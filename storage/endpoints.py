"""The shared state of the endpoints that write summaries: breakers, and rates per minute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, or_, select, update

from storage.engine import Database, insert_into
from storage.models import Endpoint

MINUTE_MS = 60_000

_COLUMNS = (
    "failures",
    "open_ms",
    "open_until",
    "probe_until",
    "error_class",
    "answered_at",
    "minute",
    "requests",
    "tokens",
)


@dataclass(frozen=True, slots=True)
class EndpointRecord:
    """An endpoint as it is stored, read at `now`. Times are milliseconds since 1970 (UTC) by the
    database's clock.

    `failures` counts consecutive ones that mean it is down for everyone, `error_class` is of the
    last one, `answered_at` when it answered last, None for never. The breaker is open unless
    `open_until` is None: until then no request is sent. `open_ms` is how long it opened last. While
    the breaker is half-open, one request at a time probes the endpoint; its slot is taken until
    `probe_until`. `requests` and `tokens` are those of minute number `minute`.
    """

    name: str
    now: int
    failures: int = 0
    open_ms: int = 0
    open_until: int | None = None
    probe_until: int | None = None
    error_class: str | None = None
    answered_at: int | None = None
    minute: int = 0
    requests: int = 0
    tokens: int = 0

    @property
    def this_minute(self) -> int:
        """The number of the minute of `now`."""
        return self.now // MINUTE_MS

    @property
    def used(self) -> tuple[int, int]:
        """The requests and tokens of this minute so far."""
        return (self.requests, self.tokens) if self.minute == self.this_minute else (0, 0)


@dataclass(frozen=True, slots=True)
class EndpointState:
    """The state of an endpoint, for operators.

    `is_open` says that its breaker is open, for `open_for_ms` more; 0 means that the next request
    probes whether it is back. While `probing`, such a request is out and every other one waits for
    its end, whether the breaker is open or not. `requests` and `tokens` are those of this minute.
    """

    name: str
    is_open: bool
    open_for_ms: int
    probing: bool
    failures: int
    error_class: str | None
    requests: int
    tokens: int


def lock(connection: Connection, database: Database, name: str) -> EndpointRecord:
    """Lock the endpoint's row for this transaction, creating it where it is missing, and return
    it."""
    found = _read_locked(connection, database, name)
    if not found:
        connection.execute(
            insert_into(connection, Endpoint)
            .values(name=name, updated_at=database.now())
            .on_conflict_do_nothing()
        )
        found = _read_locked(connection, database, name)
    return _record(found[0])


def find(connection: Connection, database: Database, name: str) -> EndpointRecord | None:
    """Return the stored endpoint; None where it was never called. Takes no lock."""
    row = connection.execute(_select(database).where(Endpoint.name == name)).first()
    return None if row is None else _record(row)


def write(connection: Connection, record: EndpointRecord) -> None:
    """Store `record` over the one that `lock` returned."""
    connection.execute(
        update(Endpoint)
        .where(Endpoint.name == record.name)
        .values({name: getattr(record, name) for name in _COLUMNS} | {"updated_at": record.now})
    )


def states(connection: Connection, database: Database) -> list[EndpointState]:
    """Return every endpoint that was ever called, by name."""
    return [
        _state(_record(row)) for row in connection.execute(_select(database).order_by("name")).all()
    ]


def close_breaker(connection: Connection, name: str | None = None) -> int:
    """Close the breaker of an endpoint, or of all for None, even while a probe is out that others
    wait for; return how many endpoints that changed."""
    held = or_(Endpoint.open_until.is_not(None), Endpoint.probe_until.is_not(None))
    closed = connection.execute(
        update(Endpoint)
        .where(held, *([] if name is None else [Endpoint.name == name]))
        .values(failures=0, open_ms=0, open_until=None, probe_until=None, error_class=None)
    )
    return closed.rowcount


def _select(database: Database) -> Any:
    columns = [getattr(Endpoint, name) for name in _COLUMNS]
    return select(Endpoint.name, database.now().label("now"), *columns)


def _read_locked(connection: Connection, database: Database, name: str) -> Sequence[Any]:
    query = _select(database).where(Endpoint.name == name).with_for_update()
    return connection.execute(query).all()


def _record(row: Any) -> EndpointRecord:
    return EndpointRecord(*row)


def _state(record: EndpointRecord) -> EndpointState:
    open_until, probe_until = record.open_until, record.probe_until
    requests, tokens = record.used
    return EndpointState(
        name=record.name,
        is_open=open_until is not None,
        open_for_ms=max(0, (open_until or 0) - record.now),
        probing=probe_until is not None and probe_until > record.now,
        failures=record.failures,
        error_class=record.error_class,
        requests=requests,
        tokens=tokens,
    )
