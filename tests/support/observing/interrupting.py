"""A database under a process that is killed at one of its transactions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from sqlalchemy import Connection

from storage.engine import Database
from tests.support.workers.workplace import Killed


@dataclass(slots=True)
class Fuse:
    """Burns down by one at each point: before a transaction, before its commit, after it."""

    left: int
    points: int = 0

    def burn(self) -> None:
        self.points += 1
        self.left -= 1
        if self.left == 0:
            raise Killed


@dataclass(frozen=True, slots=True)
class Interrupting(Database):
    """`Database` whose user is killed when the `fuse` has burnt down."""

    fuse: Fuse = field(default_factory=lambda: Fuse(0))

    @classmethod
    def of(cls, database: Database, points: int) -> Interrupting:
        return cls(database.engine, database.offset_ms, fuse=Fuse(points))

    @contextmanager
    def store(self) -> Iterator[Connection]:
        if self.dialect != "postgresql":
            with self.write() as connection:
                yield connection
            return
        self.fuse.burn()
        with Database.store(self) as connection:
            yield connection
            self.fuse.burn()
        self.fuse.burn()

    @contextmanager
    def write(self) -> Iterator[Connection]:
        self.fuse.burn()
        with Database.write(self) as connection:
            yield connection
            self.fuse.burn()
        self.fuse.burn()
