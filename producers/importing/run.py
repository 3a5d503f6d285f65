"""The import of a file, session by session. It may be interrupted anywhere and repeated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from producers.importing.admission import BadRowError, Terms, admit
from producers.importing.hermes import open_state
from producers.importing.source import Account, BadRow, Fate, ImportRefused, SourceSession
from producers.importing.transcripts import Format, read_lines, recognise
from storage.engine import Database

ImportProgress = Callable[[int, int], None]
"""Called with the amount that was read and the total: bytes of lines, sessions of a `state.db`."""

AGAIN = "what was imported so far stays; correct it, or add --skip-bad, and call again"


def import_file(
    database: Database, path: Path, terms: Terms, account: Account, progress: ImportProgress
) -> None:
    """Import every session of a file and count every row in `account`.

    Each session is stored whole, in a transaction of its own, and only once: rows that were
    imported before are recognised, and only new ones are added. Raises `ImportRefused` for the
    first session or row that cannot be stored, unless `terms` say to skip it, and for a file that
    cannot be read.
    """
    form = recognise(path)
    for found in _lines(path, progress) if form is Format.LINES else _state(path, progress):
        if isinstance(found, BadRow):
            _skip(terms, account, found, Fate.BAD)
            continue
        try:
            admit(database, found, terms, account)
        except BadRowError as error:
            _skip(terms, account, BadRow(error.place, error.problem, _size(found)), Fate.REFUSED)


def _skip(terms: Terms, account: Account, bad: BadRow, fate: Fate) -> None:
    """Report and count what cannot be stored, or end the import unless it may be skipped."""
    if not terms.skip_bad:
        raise ImportRefused(f"{bad.place}: {bad.problem}; {AGAIN}")
    account.name(bad.place, bad.problem)
    account.read += bad.rows
    account.count(fate, bad.rows)
    account.sessions["bad"] += 1


def _size(found: SourceSession) -> int:
    return len(found.rows) + len(found.summaries) + sum(found.left_out.values())


def _lines(path: Path, progress: ImportProgress) -> Iterator[SourceSession | BadRow]:
    size = path.stat().st_size
    for read in read_lines(path):
        yield read.found
        progress(read.bytes_read, size)


def _state(path: Path, progress: ImportProgress) -> Iterator[SourceSession | BadRow]:
    with open_state(path) as state:
        ids = state.ids()
        for number, session_id in enumerate(ids, 1):
            found = state.read(session_id)
            if found is not None:
                yield found
            progress(number, len(ids))
