"""The servers and files that benchmarks run on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from tests.support.servers.databases import fresh_database

DATABASES = ("sqlite", "postgresql")


@dataclass(frozen=True, slots=True)
class Stage:
    """Where SQLite files may be made, and the URLs of the servers."""

    directory: Path
    redis_url: str
    postgres_url: str

    @contextmanager
    def database(self, kind: str) -> Iterator[str]:
        """Yield the URL of a new, empty database of that kind."""
        if kind == "postgresql":
            with fresh_database(self.postgres_url) as url:
                yield url
            return
        path = self.directory / f"{uuid4().hex}.db"
        try:
            yield f"sqlite:///{path}"
        finally:
            for left in self.directory.glob(f"{path.name}*"):
                left.unlink()
