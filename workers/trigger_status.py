"""The status of every automatic trigger of a session: due or not, and what blocks it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from storage.endpoints import EndpointState
from storage.guards import GuardName
from workers.due import (
    MICRO_RULES,
    Load,
    Restraints,
    prune_asked,
    prune_hold,
    triggers_met,
)
from workers.holds import Hold, held_back
from workers.limits import hygiene_limit, session_threshold
from workers.managed import ManagedBy, managed_by
from workers.threshold import NoUsableWindowError, Threshold
from workers.triggers import RULES, Trigger, TriggerRules

MICRO = "micro"
"""What micro-compaction is called beside the triggers of a batch pass."""

PRUNE = "prune"
"""What shortening old tool output is called there."""


@dataclass(frozen=True, slots=True)
class TriggerStatus:
    """The status of one trigger now; `trigger` is one of `Trigger`, `MICRO` or `PRUNE`.

    `met` says whether its condition holds, None where an event decides that and not the session:
    an error, a plugin. `size` is what is compared with `limit`; both are None where nothing is,
    `size` also where it is not known. `hold` is what blocks the pass if it is due.
    """

    trigger: str
    met: bool | None
    hold: Hold | None
    size: int | None = None
    limit: int | None = None


def trigger_statuses(
    load: Load, under: Restraints, *, micro_due: bool, placeholder: bool, down: Hold | None
) -> tuple[TriggerStatus, ...]:
    """Return the status of every automatic trigger of a session.

    `micro_due` says whether a micro pass has something to absorb, `placeholder` whether one is
    shown, `down` why no summariser can be asked now (`nobody_answers`). Errors of the provider are
    shown as one, `CONTEXT_OVERFLOW`: the same rules hold for all of them.
    """
    return tuple(_statuses(load, under, micro_due, placeholder, down))


def nobody_answers(chain: Sequence[EndpointState | None]) -> Hold | None:
    """Return what blocks passes while the breaker of every model in the chain is open, else None.

    A model that was never asked, or the built-in summariser, is None in `chain`.
    """
    blocked = [one for one in chain if one is not None and one.is_open and one.open_for_ms > 0]
    if not blocked or len(blocked) < len(chain):
        return None
    first = min(blocked, key=lambda one: one.open_for_ms)
    why = f" ({first.error_class})" if first.error_class else ""
    return Hold(f"the summariser is down{why}", left_ms=first.open_for_ms)


def _statuses(
    load: Load, under: Restraints, micro_due: bool, placeholder: bool, down: Hold | None
) -> Iterator[TriggerStatus]:
    session, settings = load.session, under.settings
    threshold = _threshold(load, under)
    tokens = threshold.tokens if threshold else None
    met = triggers_met(load, settings)
    most = settings.hygiene_hard_message_limit

    def status(
        trigger: Trigger, holds: bool | None, size: int | None = None, limit: int | None = None
    ) -> TriggerStatus:
        return TriggerStatus(trigger, holds, _hold(trigger, load, under, down), size, limit)

    yield status(Trigger.AFTER_RESPONSE, Trigger.AFTER_RESPONSE in met, load.prompt_tokens, tokens)
    full = tokens is not None and load.estimate >= tokens
    many = session.live_messages >= most
    yield status(Trigger.PREFLIGHT, full or many, load.estimate, tokens)
    yield status(
        Trigger.HYGIENE_TOKENS,
        Trigger.HYGIENE_TOKENS in met,
        load.estimate,
        hygiene_limit(session, threshold) if threshold else None,
    )
    yield status(Trigger.HYGIENE_COUNT, Trigger.HYGIENE_COUNT in met, session.live_messages, most)
    yield status(Trigger.CONTEXT_OVERFLOW, None)
    yield status(Trigger.ENGINE, None)
    yield TriggerStatus(MICRO, micro_due, _micro_hold(load, under, down))
    yield TriggerStatus(
        PRUNE,
        prune_asked(load, under) is not None,
        prune_hold(session, under),
        session.live_tokens,
        under.settings.proactive_prune_tokens or tokens,
    )
    yield status(Trigger.HEAL, placeholder)


def _hold(trigger: Trigger, load: Load, under: Restraints, down: Hold | None) -> Hold | None:
    by = managed_by(load.session, under.settings)
    hygiene = trigger in (Trigger.HYGIENE_TOKENS, Trigger.HYGIENE_COUNT)
    if by is ManagedBy.OPENAI and hygiene:
        return _OPENAI
    return _held(RULES[trigger], load, under, down) or _spent(trigger, load, under)


def _spent(trigger: Trigger, load: Load, under: Restraints) -> Hold | None:
    """Return what blocks a trigger that has acted as often in this turn as it may."""
    of_turn = {
        name: guard for name, guard in under.guards.items() if guard.subject == load.session.turns
    }
    asked = of_turn.get(GuardName.PASSES_OF_TURN)
    most = under.settings.max_attempts
    if trigger is Trigger.PREFLIGHT and asked is not None and (asked.count >= most or asked.detail):
        return Hold("this turn has had its passes", GuardName.PASSES_OF_TURN)
    if trigger is Trigger.ENGINE and GuardName.ENGINE_REQUEST in of_turn:
        return Hold("a plugin has asked in this turn", GuardName.ENGINE_REQUEST)
    return None


def _micro_hold(load: Load, under: Restraints, down: Hold | None) -> Hold | None:
    if not under.settings.micro_compact:
        return Hold("micro-compaction is switched off (compression.micro_compact)")
    if managed_by(load.session, under.settings) is ManagedBy.OPENAI:
        return _OPENAI
    return _held(MICRO_RULES, load, under, down)


_OPENAI = Hold("OpenAI compacts this conversation; ours is the pass after a response")
_CODEX = Hold("Codex owns this thread and compacts it itself")


def _held(rules: TriggerRules, load: Load, under: Restraints, down: Hold | None) -> Hold | None:
    if managed_by(load.session, under.settings) is ManagedBy.CODEX:
        return _CODEX
    hold = held_back(
        rules,
        under.guards,
        session=load.session,
        settings=under.settings,
        fingerprint=under.fingerprint,
    )
    if down is None or rules.bypasses or not under.settings.enabled:
        return hold
    return down if hold is None else max(hold, down, key=lambda one: one.left_ms)


def _threshold(load: Load, under: Restraints) -> Threshold | None:
    try:
        return session_threshold(load.session, under.settings)
    except NoUsableWindowError:
        return None
