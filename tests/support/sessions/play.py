"""Play conversations through the real gateway class and work their jobs in this process.

Everything is real but the queue: `work_off` finds due rows as the reconciler does and works them
one after the other, so a test decides when something happens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from random import Random
from typing import Any

from sqlalchemy import text as sql

from producers import Gateway, Origin, Session
from storage import jobs, migrate
from storage.conversations import messages as stored
from storage.conversations.rows import Kind, Row
from storage.engine import Database, open_database
from tests.support.sessions.unabsorbed import check_unabsorbed
from workers.conversation.messages import outline
from workers.policy.failures import RetryPolicy
from workers.runtime.context import WorkerContext
from workers.runtime.jobs import Crashed, NotClaimed, Worked, work
from workers.settings import CompressionSettings, Settings, SettingsSource
from workers.summariser.contract import Summariser
from workers.summariser.extractive.local import LocalSummariser

ChatDict = dict[str, Any]
TODAY = date(2026, 11, 30)


@dataclass(frozen=True, slots=True)
class Turn:
    """Messages from one request up to the next, with what the gateway says of their origins."""

    messages: list[ChatDict]
    origins: list[Origin | None]


def turns_of(
    messages: Sequence[ChatDict], origins: Sequence[Origin | None] | None = None
) -> list[Turn]:
    """Cut a transcript into turns at its real user messages; what comes before is in the first."""
    stated = list(origins) if origins is not None else [None] * len(messages)
    turns: list[Turn] = []
    opened = False
    for message, origin in zip(messages, stated, strict=True):
        opens = outline(message, origin).opens_turn
        if not turns or (opens and opened):
            turns.append(Turn([], []))
        opened = opened or opens
        turns[-1].messages.append(message)
        turns[-1].origins.append(origin)
    return turns


@dataclass(slots=True)
class Play:
    """A gateway and a worker on one database."""

    database: Database
    gateway: Gateway
    context: WorkerContext

    def say(self, session: Session, turn: Turn, **more: Any) -> None:
        self.gateway.finalize_turn(session, turn.messages, origins=turn.origins, **more)

    def work_one(self) -> Worked | None:
        """Work the job that waits longest, if any is due; fails where it crashes."""
        with self.database.write() as connection:
            due = jobs.notify_due(connection, self.database, again_after_ms=-1, limit=1)
            due = due or jobs.notify_bulk(connection, self.database, at_once=1)
        if not due:
            return None
        match work(self.context, due[0].id):
            case Worked() as worked:
                check_unabsorbed(self.database)
                return worked
            case NotClaimed():
                raise AssertionError(f"{due[0]} is due but was not claimed")
            case Crashed(error):
                raise error

    def work_off(self, most: int = 10_000) -> list[Worked]:
        """Work everything that is due now."""
        done: list[Worked] = []
        while len(done) < most:
            worked = self.work_one()
            if worked is None:
                return done
            done.append(worked)
        raise AssertionError(f"after {most} jobs something is still due")

    def view(self, session: Session) -> list[Row]:
        with self.database.read() as connection:
            return stored.read_view(connection, session.key)

    def everything(self, session: Session) -> list[Row]:
        with self.database.read() as connection:
            return stored.read_everything(connection, session.key)

    def rows(self, query: str, **values: Any) -> list[tuple[Any, ...]]:
        """Return rows of a plain SQL query, for a look behind our own statements."""
        with self.database.read() as connection:
            return [tuple(row) for row in connection.execute(sql(query), values)]


@contextmanager
def playing(
    url: str,
    *,
    summariser: Summariser | None = None,
    failpoint: Callable[[str], None] = lambda _: None,
    retry: RetryPolicy | None = None,
    offset_ms: int = 0,
    **compression: Any,
) -> Iterator[Play]:
    """Yield a play on the database `url`, migrated, with settings of the block `compression`."""
    settings = Settings(database_url=url, compression=CompressionSettings(**compression))
    database = open_database(url, offset_ms=offset_ms)
    migrate.upgrade(database)
    context = WorkerContext(
        database=database,
        settings=SettingsSource.fixed(settings),
        summariser=summariser or LocalSummariser(),
        retry=retry or RetryPolicy(base_seconds=0.0, longest_seconds=0.0),
        rng=Random(7),
        today=lambda: TODAY,
        failpoint=failpoint,
    )
    gateway = Gateway(settings, database=database)
    try:
        yield Play(database, gateway, context)
    finally:
        gateway.close()
        database.close()


def person_rows(rows: Iterable[Row]) -> list[Any]:
    """Contents of the real user messages."""
    return [row.message["content"] for row in rows if row.opens_turn and row.message is not None]


def micro_markers(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if row.kind is Kind.MICRO]


def shape(rows: Iterable[Row]) -> list[tuple[Any, ...]]:
    """Return what makes two views the same: places, kinds, sizes and texts, but not row ids of
    markers."""
    return [(r.position, r.kind, r.tokens, r.message, r.summary) for r in rows]
