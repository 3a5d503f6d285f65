"""Checks of the models that write summaries: whether they answer, and whether they are slow."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from statistics import median

from afterturn.doctor.finding import Finding, Status
from afterturn.summarisers import describe_endpoint, describe_summarisers
from afterturn.words import duration
from storage import attempts
from storage.engine import Database
from workers.answers import accept
from workers.endpoints import EndpointError, resolve_chain
from workers.settings import Settings
from workers.summariser.build import build_chain
from workers.summarising import (
    ErrorClass,
    Passage,
    Stopped,
    Summariser,
    SummariserError,
    SummaryRequest,
    Task,
)
from workers.threshold import reasons_first

CHECK = "summariser"

SECONDS = 15.0
"""Longest wait for one model."""

_ADVICE = {
    ErrorClass.CONNECTION: "start it, or correct auxiliary.compression.base_url",
    ErrorClass.AUTH: "the key is refused: correct OPENAI_API_KEY or OPENROUTER_API_KEY in the "
    "environment",
    ErrorClass.NOT_FOUND: "correct auxiliary.compression.model and base_url: it is not known there",
    ErrorClass.BAD_REQUEST: "correct auxiliary.compression.extra_body and model",
    ErrorClass.RATE_LIMITED: "wait, or raise the limit at the provider",
}
_OTHER_ADVICE = "see what the provider says; jobs wait and are tried again"


def check_summarisers(
    settings: Settings, secrets: Mapping[str, str], *, ask: bool, seconds: float = SECONDS
) -> list[Finding]:
    """Return one finding for each model of the chain; with `ask` each gets a short request."""
    try:
        endpoints = resolve_chain(settings.auxiliary.compression, secrets)
    except EndpointError as error:
        problem = error.problems[0]
        return [Finding.fail(CHECK, f"{problem.key}: {problem.given}", problem.message)]
    if endpoints == (None,):
        return [Finding.ok(CHECK, describe_summarisers(settings, secrets))]
    if not ask:
        return [Finding.ok(CHECK, f"{describe_endpoint(e)}; not asked") for e in endpoints]
    chain = build_chain(settings, secrets)
    try:
        findings = [
            _asked(summariser, describe_endpoint(endpoint), seconds)
            for summariser, endpoint in zip(chain, endpoints, strict=True)
        ]
    finally:
        for summariser in chain:
            summariser.close()
    return [findings[0], *map(_milder, findings[1:])]


def _asked(summariser: Summariser, name: str, seconds: float) -> Finding:
    started, request = time.monotonic(), _request()
    try:
        reply = summariser.summarise(request, lambda: time.monotonic() - started > seconds)
        accept(reply.text, request)
    except Stopped:
        return Finding.warn(
            CHECK,
            f"{name} did not answer within {seconds:g} s",
            "see whether it is loading or too slow; a job waits longer",
        )
    except SummariserError as error:
        detail = f"{name}: {error}"
        if error.error_class.blames_endpoint:
            return Finding.fail(CHECK, detail, _ADVICE.get(error.error_class, _OTHER_ADVICE))
        return Finding.warn(CHECK, detail, "it answers, but not with a summary: try another model")
    return Finding.ok(CHECK, f"{name} answered in {duration(1000 * (time.monotonic() - started))}")


def _request() -> SummaryRequest:
    return SummaryRequest(
        task=Task.ABSORB,
        previous="",
        question="Which city is the capital of France?",
        passages=(
            Passage(
                "assistant",
                "I looked it up in the atlas on the shelf: it is Paris, on the river Seine, and "
                "about two million people live there.",
            ),
        ),
        target_tokens=50,
        replaced_tokens=1000,
        today=datetime.now(UTC).date(),
    )


def _milder(finding: Finding) -> Finding:
    """Turn a failure into a warning: without a fallback, summaries are still written."""
    if finding.status is Status.FAIL:
        return Finding.warn(CHECK, finding.detail, finding.advice)
    return finding


SLOW_MS = 60_000
"""A median above this is slow: most models write a summary within half a minute."""

FEWEST = 5
"""Answers from which on their times count for more than the model's name."""

_MOST = 50
_SLOW_ADVICE = (
    "name a small, fast model that does not reason in auxiliary.compression.model, or switch its "
    "reasoning off in extra_body"
)


def check_slowness(
    settings: Settings, secrets: Mapping[str, str], database: Database | None
) -> list[Finding]:
    """Return a warning for each configured model that is slow, as measured or by its name."""
    try:
        chain = resolve_chain(settings.auxiliary.compression, secrets)
    except EndpointError:
        return []  # Reported by `check_summarisers`.
    found = (_slow(one.model, _times(database, one.model)) for one in chain if one is not None)
    return [Finding.warn(CHECK, problem, _SLOW_ADVICE) for problem in found if problem is not None]


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
