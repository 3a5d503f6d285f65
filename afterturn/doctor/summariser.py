"""Whether the models that write summaries answer."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime

from afterturn.doctor.finding import Finding, Status
from afterturn.render.terms import describe_endpoint, describe_summarisers
from afterturn.render.words import duration
from workers.settings import Settings
from workers.summariser.answers import accept
from workers.summariser.chain import build_chain
from workers.summariser.contract import (
    ErrorClass,
    Passage,
    Stopped,
    Summariser,
    SummariserError,
    SummaryRequest,
    Task,
)
from workers.summariser.endpoints import EndpointError, resolve_chain

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
    """One finding for each model of the chain. With `ask` each gets a request of a few tokens."""
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
    return [findings[0], *map(_less_grave, findings[1:])]


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


def _less_grave(finding: Finding) -> Finding:
    """A fallback that fails is no failure of the whole."""
    if finding.status is Status.FAIL:
        return Finding.warn(CHECK, finding.detail, finding.advice)
    return finding
