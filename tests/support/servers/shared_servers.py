"""The servers that a whole test run shares: started once, when a test first needs them.

pytest's first process owns the run: its directory, and a FIFO in it that only this process holds
open. Whichever process needs a server first starts it, with a watchdog on that FIFO, and leaves
its URL in the directory for the others. So the servers end with the run, however it ends.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy.engine import make_url

from tests.support.servers.server_program import STOP_SECONDS, ServerProgram
from tests.support.servers.servers import PostgresServer, RedisServer

RUN_DIRECTORY = "afterturn_run_directory"
"""Key under which the directory travels to the worker processes of pytest-xdist."""


@dataclass(slots=True)
class Run:
    """One run of pytest, seen from one of its processes.

    `broker_url` and `given_database_url` are what the environment named when the run began.
    """

    directory: Path
    broker_url: str | None
    given_database_url: str | None
    _life: int | None = None
    _mine: list[ServerProgram] = field(default_factory=list)

    @classmethod
    def begin(cls) -> Run:
        """Begin a run that this process owns."""
        directory = Path(tempfile.mkdtemp(prefix="afterturn-run-"))
        os.mkfifo(directory / "life")
        # Open for both directions, since opening for writing alone would wait for a reader.
        life = os.open(directory / "life", os.O_RDWR)
        return cls(directory, *_given_servers(), life)

    @classmethod
    def join(cls, directory: Path) -> Run:
        """Take part in the run that another process owns."""
        return cls(directory, *_given_servers())

    def redis_url(self) -> str:
        """Return the Redis that BROKER_URL names, else the run's own, started when there is none
        yet."""
        return self.broker_url or self._once("redis", RedisServer)

    def postgres_url(self) -> str:
        """Return the PostgreSQL that DATABASE_URL names, else the run's own."""
        return self.given_database_url or self._once("postgres", PostgresServer)

    def end(self) -> None:
        """End what the run started and wait until it is gone; no-op but for the owner."""
        if self._life is None:
            return
        for server in self._mine:
            server.close()
        homes = [Path(note.read_text().split()[1]) for note in self.directory.glob("*.server")]
        os.close(self._life)
        deadline = time.monotonic() + STOP_SECONDS
        while any(home.exists() for home in homes) and time.monotonic() < deadline:
            time.sleep(0.02)
        shutil.rmtree(self.directory, ignore_errors=True)

    def _once(self, name: str, kind: Callable[..., ServerProgram]) -> str:
        note = self.directory / f"{name}.server"
        with _alone(self.directory / f"{name}.lock"):
            if not note.exists():
                server = kind(life_line=self.directory / "life")
                self._mine.append(server)
                server.start()
                note.write_text(f"{server.url} {server.directory}")
            return note.read_text().split()[0]


def _given_servers() -> tuple[str | None, str | None]:
    broker = os.environ.get("BROKER_URL", "")
    database = os.environ.get("DATABASE_URL", "")
    if database.startswith("postgres"):
        address = make_url(database.replace("postgres://", "postgresql://", 1))
        database = address.set(drivername="postgresql+psycopg").render_as_string(
            hide_password=False
        )
    return (
        broker if broker.startswith(("redis://", "rediss://")) else None,
        database if database.startswith("postgres") else None,
    )


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
