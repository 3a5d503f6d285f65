"""What kinds of summaries, outcomes and triggers are called for people."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from storage.jobs import JobKind
from storage.summaries import SummaryKind
from workers.pruning.triggers import PruneTrigger
from workers.trigger_status import MICRO, PRUNE
from workers.triggers import Trigger

_SUMMARIES: Mapping[str, str] = MappingProxyType(
    {
        SummaryKind.MICRO: "rolling summary",
        SummaryKind.DEFRAG: "rolling summary, rewritten shorter",
        SummaryKind.BATCH: "batch summary",
        SummaryKind.PLACEHOLDER: "placeholder, made without a model",
        SummaryKind.HEALED: "batch summary in a placeholder's place",
        SummaryKind.RESET: "last good summary, kept by a reset",
    }
)

_OUTCOMES: Mapping[str, str] = MappingProxyType(
    {
        "absorbed": "absorbed",
        "compacted": "compacted",
        "defrag": "rewritten shorter",
        "defrag_rejected": "rewrite refused, not shorter",
        "failed": "failed",
        "healed": "placeholder replaced",
        "held_back": "held back by a guard",
        "no_op": "nothing to compact",
        "not_smaller": "refused, not smaller",
        "nothing_due": "nothing to absorb",
        "placeholder": "placeholder put in",
        "nothing_to_prune": "no tool output to shorten",
        "pruned": "tool output shortened",
        "pruned_enough": "tool output shortened, enough",
        "reset": "reset",
        "skipped": "exchange skipped",
        "stale": "stale, planned anew",
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
        Trigger.HEAL: "placeholder to replace",
        Trigger.RECOMPACT: "bulk re-compaction",
        MICRO: "micro-compaction",
        PRUNE: "old tool output",
        PruneTrigger.HELD_BACK: "over the threshold, held back",
        PruneTrigger.PROACTIVE: "size of the view",
    }
)


def summary_name(kind: SummaryKind) -> str:
    """What a summary of that kind is."""
    return _SUMMARIES.get(kind, kind)


def outcome_name(outcome: str) -> str:
    """What became of a try; one of a newer version is called by its own name."""
    return _OUTCOMES.get(outcome, outcome)


def trigger_name(trigger: str) -> str:
    """What asks for a pass; one of a newer version is called by its own name."""
    return _TRIGGERS.get(trigger, trigger)


def attempt_name(kind: str, trigger: str) -> str:
    """What a try was: its kind, and for a batch pass what asked for it."""
    return f"{kind}, {trigger_name(trigger)}" if kind == JobKind.BATCH else kind
