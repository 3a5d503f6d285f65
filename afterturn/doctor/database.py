"""Checks of the shared database and its search index."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

from afterturn.database_file import absence, is_default, missing_file
from afterturn.doctor.finding import Finding, within
from afterturn.words import count, share
from storage import migrate, search, sessions
from storage.engine import Database, open_database
from storage.errors import StorageError
from storage.search import IndexHealth
from workers.urls import masked_url

SECONDS = 10.0
"""Longest wait for one answer of the database."""

REACHED, TABLES, WRITABLE = "database", "tables", "database writable"
_NO_SESSION = -1


def check_database(url: str) -> tuple[Database | None, list[Finding]]:
    """Return the database when its tables can be used, else None, and the findings.

    Creates nothing, not even a SQLite file that is not there yet.
    """
    place = masked_url(url)
    if (missing := missing_file(url)) is not None:
        return None, [_future_file(missing, url)]
    database = None
    try:
        database = open_database(url)
        revision = within(SECONDS, partial(migrate.current, database))
    except (StorageError, TimeoutError) as error:
        _close(database)
        advice = "start it, or correct database_url in the configuration or DATABASE_URL"
        return None, [Finding.fail(REACHED, f"{place}: {_cause(error)}", advice)]
    findings = [Finding.ok(REACHED, place), _tables(database, revision)]
    if revision != migrate.head():
        _close(database)
        return None, findings
    findings.append(_writable(database))
    return database, findings


def _future_file(file: Path, url: str) -> Finding:
    place = masked_url(url)
    folder = next(parent for parent in file.absolute().parents if parent.exists())
    if os.access(folder, os.W_OK | os.X_OK):
        problem, _, advice = absence(url).partition("; ")
        if is_default(url):
            return Finding.ok(REACHED, f"{problem}; {advice}")
        return Finding.warn(REACHED, problem, advice)
    return Finding.fail(
        REACHED,
        f"{place} is not there and {folder} cannot be written to",
        "name another place in database_url or DATABASE_URL",
    )


def _tables(database: Database, revision: str | None) -> Finding:
    needed = migrate.head()
    if revision == needed:
        return Finding.ok(TABLES, f"revision {revision}, as needed")
    if revision is not None and revision not in migrate.revisions():
        return Finding.fail(
            TABLES,
            f"revision {revision} is newer than this version knows ({needed})",
            "install the version of afterturn that made them",
        )
    detail = f"revision {revision or 'none'}, this version needs {needed}"
    if database.dialect == "sqlite":
        return Finding.warn(TABLES, detail, "the first use upgrades it; or `afterturn db upgrade`")
    return Finding.fail(TABLES, detail, "run `afterturn db upgrade`")


def _writable(database: Database) -> Finding:
    def write() -> None:
        with database.write() as connection:
            # Changes no row, and is refused where a change would be.
            sessions.close_turn(connection, _NO_SESSION)

    try:
        within(SECONDS, write)
    except (StorageError, TimeoutError) as error:
        return Finding.fail(
            WRITABLE,
            _cause(error),
            "free it: another program may hold it, it may be read-only or its disk full",
        )
    return Finding.ok(WRITABLE, "yes")


def _close(database: Database | None) -> None:
    if database is not None:
        database.close()


def _cause(error: Exception) -> str:
    """Return the first line of the driver's message; further ones may quote rows."""
    driver = getattr(error.__cause__, "orig", None) or error.__cause__ or error
    return (str(driver).splitlines() or [type(driver).__name__])[0]


SEARCH = "search index"
SEARCH_SECONDS = 20.0
"""Longest wait for the whole check, of which reading the index takes a tenth at most."""

MANY_WAITING = 5_000
"""Rows that wait for the index: more than what comes in between two rounds of indexing."""

_REINDEX = "run `afterturn db reindex`; searches and turns go on meanwhile"


def check_search(database: Database) -> Finding:
    """Check the index against messages of all ages, and whether it keeps up with new ones."""
    try:
        health = within(SEARCH_SECONDS, partial(search.check, database))
    except (StorageError, TimeoutError) as error:
        return Finding.fail(SEARCH, f"cannot be checked: {error}", "look at the database first")
    return _verdict(health)


def _verdict(health: IndexHealth) -> Finding:
    if health.fault is not None:
        return Finding.fail(SEARCH, f"broken: {health.fault}", _REINDEX)
    if health.outdated:
        return Finding.warn(SEARCH, "made by another version's rules", _REINDEX)
    if health.waiting > MANY_WAITING:
        return Finding.warn(
            SEARCH,
            f"{count(health.waiting, 'message')} wait to be indexed",
            "start a worker (`afterturn up`), or run `afterturn db reindex`",
        )
    if not health.exists:
        return Finding.ok(SEARCH, f"not made yet, {count(health.waiting, 'message')} waiting")
    if not health.has_pieces:
        return Finding.warn(
            SEARCH,
            f"{_state(health)}; pieces of words are looked for among the newest messages alone",
            "install PostgreSQL's extension pg_trgm in the database, then `afterturn db reindex`",
        )
    return Finding.ok(SEARCH, _state(health))


def _state(health: IndexHealth) -> str:
    parts = [count(health.documents, "document")]
    if health.waiting:
        parts.append(f"{health.waiting:,} waiting")
    if health.building is not None:
        parts.append(f"a new one is {share(health.building)} built")
    if not health.read_whole:
        parts.append("too large to be read whole in this check")
    return ", ".join(parts)
