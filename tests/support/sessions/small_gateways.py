"""Gateways with a small threshold, and sessions that are over it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from producers import Gateway, Session
from storage import guards
from storage.conversations import sessions
from storage.engine import Database
from storage.guards import GuardName, GuardRecord
from storage.jobs import JobKind, job_records
from storage.jobs.job_records import JobRecord
from tests.support.sessions.gateways import url_of, user
from workers.settings import CompressionSettings, Settings

THRESHOLD = 4000
LONG = 20.0
"""Seconds that no test waits: what is waited for comes at once."""

SHORT = 0.06


@contextmanager
def small_gateway(
    database: Database, *, owner: str = "local", **compression: Any
) -> Iterator[Gateway]:
    settings = Settings(
        database_url=url_of(database),
        compression=CompressionSettings(**{"threshold_tokens": THRESHOLD, **compression}),
    )
    with Gateway(settings, owner=owner, database=database) as gateway:
        yield gateway


def grown(gateway: Gateway, tokens: int, *, rows: int = 10, name: str = "s") -> Session:
    """Return a session of one closed turn, of a little less than so many tokens in so many rows."""
    session = gateway.open_session(name, context_window=128_000)
    text = "word" * (tokens // rows - 4)
    gateway.finalize_turn(session, [user(text)] * rows)
    return session


def live_tokens(database: Database, session: Session) -> int:
    with database.read() as connection:
        return sessions.fetch(connection, session.key).live_tokens


def batch_jobs(database: Database, session: Session) -> list[JobRecord]:
    with database.read() as connection:
        return [j for j in job_records.all_jobs(connection, session.key) if j.kind is JobKind.BATCH]


def guard(database: Database, session: Session, name: GuardName) -> GuardRecord | None:
    with database.read() as connection:
        return guards.read_all(connection, database, session.key).get(name)


def hold(
    database: Database,
    session: Session,
    name: GuardName,
    *,
    hold_ms: int,
    count: int = 0,
    detail: str | None = None,
) -> None:
    """Set a guard of a session."""
    with database.write() as connection:
        guards.put(
            connection, database, session.key, name, hold_ms=hold_ms, count=count, detail=detail
        )
