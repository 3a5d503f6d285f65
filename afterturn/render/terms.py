"""What summaries, outcomes, triggers, passes and summarisers are called for people."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from storage.conversations.summaries import SummaryKind
from storage.jobs import JobKind
from storage.outcomes import Outcome
from workers.policy.triggers import Trigger
from workers.prune.commit import PruneTrigger
from workers.settings import Settings
from workers.settings.urls import masked_url
from workers.summariser.endpoints import Endpoint, resolve_chain
from workers.turn.due import MICRO, PRUNE

LOCAL = "local"
"""Name of the built-in summariser in records and documents."""

_SUMMARIES: Mapping[str, str] = MappingProxyType(
    {
        SummaryKind.MICRO: "rolling summary",
        SummaryKind.DEFRAG: "rolling summary, rewritten shorter",
        SummaryKind.BATCH: "batch summary",
        SummaryKind.PLACEHOLDER: "placeholder, made without a model",
        SummaryKind.PLACEHOLDER_REPLACED: "batch summary in a placeholder's place",
        SummaryKind.RESET: "last good summary, kept by a reset",
    }
)

_OUTCOMES: Mapping[str, str] = MappingProxyType(
    {
        Outcome.ABSORBED: "absorbed",
        Outcome.DEFRAGMENTED: "rewritten shorter",
        Outcome.DEFRAG_REJECTED: "rewrite refused, not shorter",
        Outcome.SKIPPED: "exchange skipped",
        Outcome.COMPACTED: "compacted",
        Outcome.PLACEHOLDER: "placeholder put in",
        Outcome.PLACEHOLDER_REPLACED: "placeholder replaced",
        Outcome.RESET: "reset",
        Outcome.PRUNED: "tool output shortened",
        Outcome.PRUNED_ENOUGH: "tool output shortened, enough",
        Outcome.NOTHING_DUE: "nothing to do",
        Outcome.NOT_SMALLER: "refused, not smaller",
        Outcome.SUPPRESSED: "suppressed by a guard",
        Outcome.FAILED: "failed",
        Outcome.GAVE_UP: "gave up",
        Outcome.STALE: "stale, planned anew",
        Outcome.HANDED_BACK: "handed back by a worker that stopped",
        # Sessions of a bulk run that no pass decided about.
        "dead": "given up as dead jobs",
        "untouched": "withdrawn by somebody",
    }
)

_TRIGGERS: Mapping[str, str] = MappingProxyType(
    {
        Trigger.AFTER_RESPONSE: "after a response",
        Trigger.PREFLIGHT: "before a request",
        Trigger.HYGIENE_TOKENS: "hygiene, tokens",
        Trigger.HYGIENE_COUNT: "hygiene, messages",
        Trigger.IDLE: "idle",
        Trigger.PAYLOAD_TOO_LARGE: "error: payload too large",
        Trigger.LONG_CONTEXT_RATE_LIMIT: "error: long-context limit",
        Trigger.OUTPUT_TOO_LARGE: "error: output too large",
        Trigger.CONTEXT_OVERFLOW: "error: context overflow",
        Trigger.ENGINE: "a plugin",
        Trigger.MANUAL: "a person",
        Trigger.REPLACE_PLACEHOLDER: "placeholder to replace",
        Trigger.RECOMPACT: "bulk re-compaction",
        MICRO: "micro-compaction",
        PRUNE: "old tool output",
        PruneTrigger.SUPPRESSED: "over the threshold, passes suppressed",
        PruneTrigger.PROACTIVE: "size of the view",
    }
)


def summary_name(kind: SummaryKind) -> str:
    """Return what a summary of that kind is."""
    return _SUMMARIES.get(kind, kind)


def outcome_name(outcome: str) -> str:
    """Return an outcome in words; one of a newer version by its own name."""
    return _OUTCOMES.get(outcome, outcome)


def trigger_name(trigger: str) -> str:
    """Return what asks for a pass; a trigger of a newer version by its own name."""
    return _TRIGGERS.get(trigger, trigger)


def attempt_name(kind: str, trigger: str) -> str:
    """Return what an attempt was: its kind, and for a batch pass what asked for it."""
    return f"{kind}, {trigger_name(trigger)}" if kind == JobKind.BATCH else kind


def summariser_names(settings: Settings, secrets: Mapping[str, str]) -> list[str]:
    """Return the names of the models in the order of asking, `local` for the built-in one.

    Raises `EndpointError` where a provider's key is missing.
    """
    return [
        LOCAL if endpoint is None else endpoint.model
        for endpoint in resolve_chain(settings.auxiliary.compression, secrets)
    ]


def describe_summarisers(settings: Settings, secrets: Mapping[str, str]) -> str:
    """Return the summarisers as one line for people, with where each model is asked."""
    chain = resolve_chain(settings.auxiliary.compression, secrets)
    if chain == (None,):
        return "the built-in local one, as auxiliary.compression names no model"
    return ", then ".join(map(describe_endpoint, chain))


def describe_endpoint(endpoint: Endpoint | None) -> str:
    """Return a model in words: name, place without secrets, whether a key is sent."""
    if endpoint is None:
        return "the built-in local one"
    key = "with a key" if endpoint.api_key else "without a key"
    return f"{endpoint.model} at {masked_url(endpoint.base_url)} ({endpoint.provider}, {key})"
