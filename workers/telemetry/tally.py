"""Count attempts for the metrics: pure functions from records to figures."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from enum import StrEnum

from sqlalchemy import Connection

from storage import measures
from storage.engine import Database
from storage.measures import Series, Try

TRY_BOUNDS_MS = (10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 300_000)
"""Upper bounds of the histogram classes for durations of passes, in milliseconds."""

ANSWER_BOUNDS_MS = (100, 250, 500, 1_000, 2_500, 5_000, 10_000, 20_000, 30_000, 60_000, 120_000,
                    300_000, 600_000)  # fmt: skip
"""Upper bounds of the histogram classes for model time; the last is the longest call allowed."""


class Figure(StrEnum):
    """A figure that is counted, with its labels."""

    TRIES = "tries"
    """Attempts, by kind, trigger and outcome."""
    TRY_ERRORS = "try_errors"
    """Attempts that got no summary, by kind and error class."""
    FREED_TOKENS = "freed_tokens"
    """Live tokens that passes removed from views, net of what they added, by kind."""
    ADDED_TOKENS = "added_tokens"
    """Live tokens by which views grew in passes that added more than they removed, by kind."""
    TRY_CLASSES = "try_classes"
    """Attempts, by kind and the index of their duration class."""
    TRY_MS = "try_ms"
    """Milliseconds that attempts took, by kind."""
    REQUESTS = "requests"
    """Requests to models, by model."""
    PROMPT_TOKENS = "prompt_tokens"
    COMPLETION_TOKENS = "completion_tokens"
    """Tokens that models counted, by model."""
    MODEL_ERRORS = "model_errors"
    """Attempts that a model failed, by model and error class."""
    ANSWER_CLASSES = "answer_classes"
    """Attempts that a model answered, by model and the index of their class of model time."""
    ANSWER_MS = "answer_ms"
    """Milliseconds of model time of those attempts, by model."""


def tally(tries: Iterable[Try]) -> Counter[Series]:
    """Count attempts. One that sent no request does not count for a model."""
    counts: Counter[Series] = Counter()
    for one in tries:
        _count_try(counts, one)
        if one.requests:
            _count_model(counts, one)
    return counts


def _count_try(counts: Counter[Series], one: Try) -> None:
    counts[Figure.TRIES, (one.kind, one.trigger, one.outcome)] += 1
    if one.error_class is not None:
        counts[Figure.TRY_ERRORS, (one.kind, one.error_class)] += 1
    freed = one.tokens_before - one.tokens_after
    if freed > 0:
        counts[Figure.FREED_TOKENS, (one.kind,)] += freed
    elif freed < 0:
        counts[Figure.ADDED_TOKENS, (one.kind,)] -= freed
    counts[Figure.TRY_CLASSES, (one.kind, _class(TRY_BOUNDS_MS, one.total_ms))] += 1
    counts[Figure.TRY_MS, (one.kind,)] += one.total_ms


def _count_model(counts: Counter[Series], one: Try) -> None:
    model = (one.model,)
    counts[Figure.REQUESTS, model] += one.requests
    counts[Figure.PROMPT_TOKENS, model] += one.prompt_tokens or 0
    counts[Figure.COMPLETION_TOKENS, model] += one.completion_tokens or 0
    if one.error_class is not None:
        counts[Figure.MODEL_ERRORS, (one.model, one.error_class)] += 1
    if one.model_ms:
        counts[Figure.ANSWER_CLASSES, (one.model, _class(ANSWER_BOUNDS_MS, one.model_ms))] += 1
        counts[Figure.ANSWER_MS, model] += one.model_ms


def _class(bounds_ms: tuple[int, ...], ms: int) -> str:
    return str(bisect_left(bounds_ms, ms))


PAGE = 5_000


def count_tries(database: Database) -> int:
    """Add every settled try to the totals, page by page; return how many there were."""
    counted = 0
    while _any_settled(database):
        with database.write() as connection:
            mark = measures.hold_mark(connection)
            tries = measures.settled(connection, database, after=mark, limit=PAGE)
            if tries:
                measures.add(connection, tally(tries), up_to=tries[-1].id)
        counted += len(tries)
    return counted


def current(connection: Connection) -> tuple[Counter[Series], int]:
    """Return every figure up to now, and how many of its tries are not in the totals yet.

    Each try counts once, whether or not another transaction adds it to the totals meanwhile.
    """
    counted, mark = measures.read(connection)
    left = measures.uncounted(connection, after=mark)
    return Counter(counted) + tally(left), len(left)


def _any_settled(database: Database) -> bool:
    with database.read() as connection:
        mark = measures.read_mark(connection)
        return bool(measures.settled(connection, database, after=mark, limit=1))
