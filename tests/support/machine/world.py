"""One shared database, a clock that everybody on it reads, and processes that start and end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from random import Random
from typing import Any

from sqlalchemy import Engine, select

from producers import Gateway
from storage.engine import Database, open_database
from tests.support.sessions.gateways import url_of
from workers.policy.failures import RetryPolicy
from workers.runtime.context import WorkerContext
from workers.settings import (
    AuxiliarySettings,
    CompressionSettings,
    Settings,
    SettingsSource,
    SummariserSettings,
)
from workers.summariser.contract import Summariser

TODAY = date(2026, 11, 30)


@dataclass(slots=True)
class Clock:
    """How far the time of a test is ahead of the database's own."""

    ahead_ms: int = 0


class ClockedDatabase(Database):
    """A database by the clock of a test: all who have it open see the clock move at once."""

    __slots__ = ("_clock",)
    _clock: Clock

    def __init__(self, engine: Engine, clock: Clock) -> None:
        object.__setattr__(self, "engine", engine)
        object.__setattr__(self, "concurrency_limit", None)
        object.__setattr__(self, "_clock", clock)

    @property
    def offset_ms(self) -> int:
        return self._clock.ahead_ms


class Dial(SettingsSource):
    """Settings that an operator changes while everything runs."""

    def __init__(self, url: str, **compression: Any) -> None:
        self._compression = dict(compression)
        self._url = url
        self._model = ""
        super().__init__(self._made())

    def turn(self, **compression: Any) -> None:
        """Change settings of block `compression`."""
        self._compression.update(compression)
        self._settings = self._made()

    def name_model(self, model: str) -> None:
        """Change the summariser that the settings name."""
        self._model = model
        self._settings = self._made()

    def _made(self) -> Settings:
        return Settings(
            database_url=self._url,
            compression=CompressionSettings(**self._compression),
            auxiliary=AuxiliarySettings(compression=SummariserSettings(model=self._model)),
        )


class World:
    """A gateway process and a worker process on a database whose tables are made.

    `failpoint` is called at the debug points of every job.
    """

    def __init__(
        self,
        database: Database,
        dial: Dial,
        summariser: Summariser,
        failpoint: Callable[[str], None],
    ) -> None:
        self.clock = Clock()
        self.dial = dial
        self._url = url_of(database)
        self._summariser = summariser
        self._failpoint = failpoint
        self._started: Database | None = None
        self.start()

    def start(self) -> None:
        """Start all processes anew; those before have ended."""
        self.close()
        self._started = open_database(self._url)
        self.database = ClockedDatabase(self._started.engine, self.clock)
        self.follow_settings()

    def follow_settings(self) -> None:
        """Let gateway and worker see the settings of now."""
        self.gateway = Gateway(self.dial.current(), database=self.database)
        self.context = self.worker()

    def worker(self) -> WorkerContext:
        """Return a worker of its own name."""
        return WorkerContext(
            database=self.database,
            settings=self.dial,
            summariser=self._summariser,
            retry=RetryPolicy(),
            rng=Random(7),
            today=lambda: TODAY,
            failpoint=self._failpoint,
        )

    def close(self) -> None:
        if self._started is not None:
            self._started.close()

    def now(self) -> int:
        """Return the time of the test, in milliseconds since 1970."""
        with self.database.read() as connection:
            return int(connection.execute(select(self.database.now())).scalar_one())
