"""Whether the file of a SQLite database is there."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import make_url

from afterturn.exits import CommandError, Exit
from workers.urls import database_url, default_database_url, masked_url


class NoDatabaseFile(CommandError):
    """A command that makes no database found none."""

    def __init__(self, url: str) -> None:
        super().__init__(absence(url), Exit.UNAVAILABLE)


def missing_file(url: str) -> Path | None:
    """The SQLite file of `url` where that is one and not there, else None."""
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite" or not parsed.database or "uri" in parsed.query:
        return None
    file = Path(parsed.database)
    return None if file.exists() else file


def is_default(url: str) -> bool:
    """Whether `url` is what holds where nobody names a database."""
    return url == database_url(default_database_url())


def absence(url: str) -> str:
    """Words for a database whose file is not there: nobody named it, or somebody mistyped it."""
    place = masked_url(url)
    if is_default(url):
        return f"no database yet at {place}; a gateway or `afterturn up` creates it"
    return (
        f"no such file: {place}; correct database_url in the configuration or DATABASE_URL, or "
        "let a gateway or `afterturn up` create it"
    )
