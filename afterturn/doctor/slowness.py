"""Whether a model is slow because it reasons before it answers."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median

from afterturn.doctor.finding import Finding
from afterturn.render.words import duration
from storage import attempts
from storage.engine import Database
from workers.policy.threshold import reasons_first
from workers.settings import Settings
from workers.summariser.endpoints import EndpointError, resolve_chain

CHECK = "summariser"

SLOW_MS = 60_000
"""A median above this is slow: most models write a summary within half a minute."""

FEWEST = 5
"""Answers from which on they tell more than the model's name."""

_MOST = 50
_ADVICE = (
    "name a small, fast model that does not reason in auxiliary.compression.model, or switch its "
    "reasoning off in extra_body"
)


def check_slowness(
    settings: Settings, secrets: Mapping[str, str], database: Database | None
) -> list[Finding]:
    """A warning for each configured model that is slow, by what was measured or by its name."""
    try:
        chain = resolve_chain(settings.auxiliary.compression, secrets)
    except EndpointError:
        return []  # Told elsewhere.
    found = (_slow(one.model, _times(database, one.model)) for one in chain if one is not None)
    return [Finding.warn(CHECK, problem, _ADVICE) for problem in found if problem is not None]


def _times(database: Database | None, model: str) -> list[int]:
    if database is None:
        return []
    with database.read() as connection:
        return attempts.answer_times(connection, model, limit=_MOST)


def _slow(model: str, times: list[int]) -> str | None:
    if len(times) >= FEWEST:
        middle = median(times)
        if middle <= SLOW_MS:
            return None
        took = f"takes {duration(middle)} for an answer, the median of its last {len(times)}"
        return f"{model} {took}" + (", and reasons first" if reasons_first(model) else "")
    if reasons_first(model):
        return f"{model} reasons before it answers, as its name tells: summaries will be slow"
    return None
