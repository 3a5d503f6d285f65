"""An explanation as programs read it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from afterturn.compaction.preview_tables import portion_document
from afterturn.explanation.reading import Explanation, Model
from afterturn.session_documents import (
    guard_document,
    job_document,
    session_document,
    summary_document,
)
from afterturn.words import moment_utc
from workers.pruning.outcomes import NothingToPrune
from workers.pruning.plan import PrunePlan
from workers.trigger_status import TriggerStatus


def explanation_document(told: Explanation) -> dict[str, Any]:
    """Everything that is shown to people, and the numbers behind it."""
    parts, threshold = told.parts, told.fullness.threshold
    return {
        **session_document(told.session, told.fullness),
        "threshold_reason": told.fullness.why,
        "declared_window": told.session.declared_window,
        "calibration": {
            "samples": told.calibration.samples,
            "ratio": told.calibration.ratio,
            "additive": told.calibration.additive,
        },
        "estimated_tokens": told.estimate,
        "estimated_occupancy": told.estimate / threshold.tokens if threshold else None,
        "reported_prompt_tokens": told.prompt_tokens,
        "managed_by": told.by,
        "server_threshold_tokens": told.server_tokens,
        "parts": None
        if parts is None
        else {
            "head": portion_document(parts.head),
            "middle": portion_document(parts.leaving),
            "held": portion_document(parts.held),
            "tail": portion_document(parts.tail),
        },
        "batch_has_nothing_to_do": told.batch_idle,
        "micro_has_nothing_to_do": told.micro_idle,
        "pruning_has_nothing_to_do": told.prune.reason
        if isinstance(told.prune, NothingToPrune)
        else None,
        "pruning_would_free_tokens": told.prune.spared
        if isinstance(told.prune, PrunePlan)
        else told.prune.tokens,
        "shown_short": {"messages": told.short.messages, "tokens_left_out": told.short.tokens},
        "summaries": [summary_document(one) for one in told.shown],
        "open_jobs": [job_document(job) for job in told.open_jobs],
        "triggers": [_status(one, told.now) for one in told.statuses],
        "guards": [guard_document(name, guard) for name, guard in sorted(told.held.items())],
        "summarisers": [_model(model) for model in told.models],
        "summarisers_unknown": told.unknown_models,
    }


def _status(one: TriggerStatus, now: int) -> dict[str, Any]:
    hold = one.hold
    return {
        "trigger": one.trigger,
        "due": one.met,
        "size": one.size,
        "limit": one.limit,
        "held_by": None
        if hold is None
        else {
            "reason": hold.reason,
            "guard": hold.guard,
            "until": moment_utc(now + hold.left_ms) if hold.left_ms else None,
            "left_seconds": hold.left_ms / 1000,
        },
    }


def _model(model: Model) -> dict[str, Any]:
    return {
        "route": model.route or "local",
        "state": None if model.state is None else asdict(model.state),
    }
