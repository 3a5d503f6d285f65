"""The triggers of a batch pass and the rules for each (see docs/explanation/triggers.md)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Trigger(StrEnum):
    """The cause of a batch pass."""

    AFTER_RESPONSE = "after_response"
    PREFLIGHT = "preflight"
    HYGIENE_TOKENS = "hygiene_tokens"
    HYGIENE_COUNT = "hygiene_count"
    IDLE = "idle"
    PAYLOAD_TOO_LARGE = "payload_too_large"
    LONG_CONTEXT_RATE_LIMIT = "long_context_rate_limit"
    OUTPUT_TOO_LARGE = "output_too_large"
    CONTEXT_OVERFLOW = "context_overflow"
    ENGINE = "engine"
    MANUAL = "manual"
    REPLACE_PLACEHOLDER = "replace_placeholder"
    """A placeholder waits for its real summary."""
    RECOMPACT = "recompact"
    """Bulk re-compaction: an operator wants many old sessions compacted when workers have time."""


@dataclass(frozen=True, slots=True)
class TriggerRules:
    """The rules for a trigger.

    Of two triggers, the one of higher `priority` decides. `honours_cooldown` and `honours_thrash`
    say which guards suppress it, `honours_switch` whether `enabled: false` and an undo do,
    `honours_no_op` whether a remembered no-op does. `bypasses` says that neither cooldown nor
    anti-thrash nor breaker makes it wait: an open breaker counts as a failed attempt. It also takes
    a session away from a running micro or prune job. `prunes_first` says that old tool output is
    shortened before a model is asked, `enters_open_turn` that closed groups of a turn that is still
    open may be taken. `hygiene` passes have their own time limits and cooldown.
    `placeholder_at_once` falls back to a placeholder after the first failure, even if the settings
    say otherwise. `leaves_unchanged` says that a pass without a summary changes nothing: neither
    placeholder nor reset.
    """

    priority: int
    bypasses: bool = False
    honours_switch: bool = True
    honours_cooldown: bool = True
    honours_thrash: bool = True
    honours_no_op: bool = True
    prunes_first: bool = True
    enters_open_turn: bool = False
    hygiene: bool = False
    placeholder_at_once: bool = False
    leaves_unchanged: bool = False


_ERROR = TriggerRules(
    60,
    bypasses=True,
    honours_cooldown=False,
    honours_thrash=False,
    honours_no_op=False,
    prunes_first=False,
    enters_open_turn=True,
)

RULES: dict[Trigger, TriggerRules] = {
    Trigger.REPLACE_PLACEHOLDER: TriggerRules(
        1, honours_cooldown=False, honours_thrash=False, honours_no_op=False, prunes_first=False
    ),
    # An endpoint that fails overnight must not leave thousands of placeholders behind.
    Trigger.RECOMPACT: TriggerRules(3, prunes_first=False, leaves_unchanged=True),
    Trigger.IDLE: TriggerRules(5),
    Trigger.ENGINE: TriggerRules(8),
    Trigger.AFTER_RESPONSE: TriggerRules(10, enters_open_turn=True),
    Trigger.HYGIENE_TOKENS: TriggerRules(15, honours_thrash=False, hygiene=True),
    Trigger.PREFLIGHT: TriggerRules(20, enters_open_turn=True),
    Trigger.HYGIENE_COUNT: TriggerRules(
        50,
        bypasses=True,
        honours_cooldown=False,
        honours_thrash=False,
        honours_no_op=False,
        prunes_first=False,
        enters_open_turn=True,
        hygiene=True,
        placeholder_at_once=True,
    ),
    Trigger.PAYLOAD_TOO_LARGE: _ERROR,
    Trigger.LONG_CONTEXT_RATE_LIMIT: _ERROR,
    Trigger.OUTPUT_TOO_LARGE: _ERROR,
    Trigger.CONTEXT_OVERFLOW: _ERROR,
    Trigger.MANUAL: TriggerRules(
        70,
        bypasses=True,
        honours_switch=False,
        honours_cooldown=False,
        honours_thrash=False,
        honours_no_op=False,
        prunes_first=False,
        enters_open_turn=True,
    ),
}

BATCH_QUEUE = "batch"
"""Queue of batch passes that follow from activity; passes over idle sessions are bulk work."""


def rules_of(trigger: str) -> TriggerRules:
    """Return the rules of a stored trigger; an unknown one, of a newer version, is treated like
    `IDLE`, the most restrained."""
    try:
        return RULES[Trigger(trigger)]
    except ValueError:
        return RULES[Trigger.IDLE]
