"""Count tries while their records are there (F274: totals never shrink with what is deleted)."""

from __future__ import annotations

from collections import Counter

from sqlalchemy import Connection

from storage import totals
from storage.engine import Database
from storage.totals import Series
from workers.telemetry.tally import tally

PAGE = 5_000


def count_tries(database: Database) -> int:
    """Add every settled try to the totals, page by page; gives how many there were."""
    counted = 0
    while _any_settled(database):
        with database.write() as connection:
            mark = totals.hold_mark(connection)
            tries = totals.settled(connection, database, after=mark, limit=PAGE)
            if tries:
                totals.add(connection, tally(tries), up_to=tries[-1].id)
        counted += len(tries)
    return counted


def current(connection: Connection) -> tuple[Counter[Series], int]:
    """Every figure up to now, and how many tries of it are not in the totals yet. Each try counts
    once, in whichever transaction it became one of the totals."""
    counted, mark = totals.read(connection)
    left = totals.uncounted(connection, after=mark)
    return Counter(counted) + tally(left), len(left)


def _any_settled(database: Database) -> bool:
    with database.read() as connection:
        mark = totals.read_mark(connection)
        return bool(totals.settled(connection, database, after=mark, limit=1))
