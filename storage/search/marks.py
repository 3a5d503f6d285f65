"""Where the next page of an answer begins, as a text that programs pass back.

It holds what the order was made from: how new the newest message was, what every word was worth,
and the place of the last hit. So pages neither repeat nor skip a message, whatever is stored
between them. Of another question's mark it says that it is not one of this question.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from hashlib import blake2b

from storage.errors import StorageError

Rank = tuple[int, int, int, int]
"""Sort key of a hit: block, tier, minus its score in ten thousandths, minus its number."""


class SearchMarkError(StorageError):
    """The mark of a page is none of this question: pass on what the last page ended on, together
    with the same query and filters."""

    def __init__(self) -> None:
        super().__init__(
            "the mark of the page belongs to no page of this search; pass on what the last page "
            "ended on, with the same query and the same filters"
        )


@dataclass(frozen=True, slots=True)
class Mark:
    """`newest` are the newest message's and summary's ids at the first page, `counts` how many
    documents each clause had, `last` the last hit's rank."""

    newest: tuple[int, int]
    counts: tuple[int, ...]
    last: Rank


def write_mark(mark: Mark, question: str) -> str:
    """The mark as text."""
    values = [_digest(question), *mark.newest, *mark.last, *mark.counts]
    return base64.urlsafe_b64encode(json.dumps(values, separators=(",", ":")).encode()).decode()


def read_mark(text: str, question: str) -> Mark:
    """The mark that was written; raises `SearchMarkError`."""
    try:
        values = json.loads(base64.b64decode(text.encode(), altchars=b"-_", validate=True))
        digest, message, summary, block, tier, score, number, *counts = values
        numbers = (message, summary, block, tier, score, number, *counts)
        valid = digest == _digest(question) and all(
            type(one) is int and abs(one) < 1 << 62 for one in numbers
        )
    except (ValueError, TypeError, RecursionError):
        raise SearchMarkError from None
    if not valid:
        raise SearchMarkError
    return Mark((message, summary), tuple(counts), (block, tier, score, number))


def _digest(question: str) -> str:
    return blake2b(question.encode(errors="surrogatepass"), digest_size=6).hexdigest()
