"""Keep an answer that is paid for, also when the database is away just then."""

from __future__ import annotations

import logging
import time

from storage import answers
from storage.answers import StoredAnswer
from storage.errors import DatabaseUnavailable
from workers.workshop import Workshop

log = logging.getLogger(__name__)

KEEP_SECONDS = 60.0
"""How long a database is waited for: far longer than its restart takes."""

_AGAIN_SECONDS = 0.2


def keep_answer(shop: Workshop, key: int, question: str, answer: StoredAnswer) -> None:
    """Store an answer, so that nobody pays for it again (ARCHITECTURE.md, *Protocol*).

    Repeats that while the database fails, for a minute at most, and whatever has become of the
    lease meanwhile: answers are keyed, not fenced. Raises `DatabaseUnavailable` after that.
    """
    until = time.monotonic() + KEEP_SECONDS
    while True:
        try:
            with shop.database.store() as connection:
                answers.keep(connection, shop.database, key, question, answer)
        except DatabaseUnavailable:
            if time.monotonic() > until:
                raise
            log.warning("an answer could not be stored now; trying again")
            time.sleep(_AGAIN_SECONDS)
        else:
            return
