"""What kinds of summaries, outcomes and triggers are called for people."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from storage.jobs import JobKind
from storage.outcomes import Outcome
from storage.summaries import SummaryKind
from workers.pruning.triggers import PruneTrigger
from workers.standings import MICRO, PRUNE
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
        Outcome.ABSORBED: "absorbed",
        Outcome.COMPACTED: "compacted",
        Outcome.DEFRAGMENTED: "rewritten shorter",
        Outcome.DEFRAG_REJECTED: "rewrite refused, not shorter",
        Outcome.FAILED: "failed",
        Outcome.GAVE_UP: "given up",
        Outcome.HANDED_BACK: "handed back",
        Outcome.NOT_SMALLER: "refused, not smaller",
        Outcome.NOTHING_DUE: "nothing to do",
        Outcome.PLACEHOLDER: "placeholder put in",
        Outcome.PLACEHOLDER_REPLACED: "placeholder replaced",
        Outcome.PRUNED: "tool output shortened",
        Outcome.PRUNED_ENOUGH: "tool output shortened, enough",
        Outcome.RESET: "reset",
        Outcome.SKIPPED: "exchange skipped",
        Outcome.STALE: "stale, planned anew",
        Outcome.SUPPRESSED: "suppressed by a guard",
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
