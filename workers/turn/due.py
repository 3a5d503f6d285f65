"""What a session's size makes due (see docs/explanation/triggers.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from storage.conversations.sessions import SessionRecord
from storage.endpoints import EndpointState
from storage.guards import GuardName, GuardRecord
from workers.conversation.regions import SOFT_CEILING
from workers.policy.calibration import Calibration
from workers.policy.guards import Suppression, suppressed_by
from workers.policy.threshold import (
    ManagedBy,
    NoUsableWindowError,
    Threshold,
    hygiene_limit,
    managed_by,
    region_rules,
    session_threshold,
    session_window,
)
from workers.policy.triggers import RULES, Trigger, TriggerRules
from workers.prune.commit import PRUNE_RULES, PruneTrigger
from workers.settings import CompressionSettings

MICRO_RULES = TriggerRules(0, honours_thrash=False, honours_no_op=False)
"""Its failure count and the breaker are the micro job's own."""


@dataclass(frozen=True, slots=True)
class Load:
    """The size of a session: `prompt_tokens` as the provider counted its present view, None where
    that is not known, and our estimate of what is stored.

    `rested` says that a cooldown has just ended: what it blocked is made up for then, so the
    estimate counts as if it had been reported.
    """

    session: SessionRecord
    calibration: Calibration
    prompt_tokens: int | None = None
    rested: bool = False

    @property
    def estimate(self) -> int:
        """Return what the provider would count now, in tokens."""
        return self.calibration.estimate(self.session.live_tokens)


@dataclass(frozen=True, slots=True)
class Restraints:
    """What decides whether a trigger may act, besides the session.

    The guards are read together with it; `fingerprint` is the present summariser's.
    """

    settings: CompressionSettings
    guards: Mapping[GuardName, GuardRecord]
    fingerprint: int


def batch_due(load: Load, under: Restraints) -> Trigger | None:
    """Return the trigger of highest priority for a batch pass whose condition holds and that
    nothing blocks."""
    met = triggers_met(load, under.settings)
    free = [trigger for trigger in met if not _is_held(RULES[trigger], load.session, under)]
    return max(free, key=lambda trigger: RULES[trigger].priority, default=None)


def triggers_met(load: Load, settings: CompressionSettings) -> tuple[Trigger, ...]:
    """Return the triggers of a batch pass whose condition holds, blocked or not.

    Where somebody else compacts, what we store is not what is sent, so nothing but a report
    counts; what a Codex app server owns is left to it altogether.
    """
    threshold = _threshold(load.session, settings)
    by = managed_by(load.session, settings)
    if threshold is None or by is ManagedBy.CODEX:
        return ()
    conditions = {Trigger.AFTER_RESPONSE: _is_over(load, threshold)}
    if by is None:
        if load.rested and load.estimate >= threshold.tokens:
            conditions[Trigger.AFTER_RESPONSE] = True
        conditions |= {
            Trigger.HYGIENE_TOKENS: load.estimate >= hygiene_limit(load.session, threshold),
            Trigger.HYGIENE_COUNT: (
                load.session.live_messages >= settings.hygiene_hard_message_limit
            ),
        }
    return tuple(trigger for trigger, holds in conditions.items() if holds)


def micro_may_be_due(session: SessionRecord, settings: CompressionSettings) -> bool:
    """Return whether the session's rows are worth a look: there may be enough to absorb, and it has
    grown by a pass since they were last found to hold too little.

    So a pass that becomes due without growth, because a turn was closed, is found at the latest
    when `micro_compact_min_tokens` more were stored.
    """
    least = least_for_micro(session, settings)
    if least is None or session.unabsorbed_tokens < least:
        return False
    checked = session.checked_tokens
    grown_to = 0 if checked is None else checked + settings.micro_compact_min_tokens
    return session.unabsorbed_tokens >= grown_to


def least_for_micro(session: SessionRecord, settings: CompressionSettings) -> int | None:
    """Return the unabsorbed tokens below which no micro pass can be due, rewrites of the summary
    apart, which the pass before sees to; None where none can at all.

    A tail that ends at the cursor leaves nothing, so all of it is unabsorbed beside what a pass
    takes. It fills its budget, unless the row before it would take it beyond its ceiling.
    """
    threshold = _threshold(session, settings)
    if threshold is None:
        return None
    budget = region_rules(threshold, settings).tail_budget
    enough = settings.micro_compact_min_tokens
    return min(budget + enough, max(int(SOFT_CEILING * budget), enough))


def micro_may_run(session: SessionRecord, under: Restraints) -> bool:
    """Return whether micro-compaction is for us to do and nothing blocks it."""
    if not under.settings.micro_compact or managed_by(session, under.settings) is not None:
        return False
    return not _is_held(MICRO_RULES, session, under)


def prune_due(load: Load, under: Restraints) -> PruneTrigger | None:
    """Return what asks for old tool output to be shortened now, None where nothing does or it is
    blocked. A batch pass that is due prunes first itself."""
    return prune_asked(load, under) if prune_hold(load.session, under) is None else None


def prune_asked(load: Load, under: Restraints) -> PruneTrigger | None:
    """Return which condition holds: over the threshold while cooldown or anti-thrash block
    summaries, or at `proactive_prune_tokens`."""
    session, wanted = load.session, under.settings.proactive_prune_tokens
    threshold = _threshold(session, under.settings)
    size = max(load.prompt_tokens or 0, load.estimate)
    if threshold is not None and size >= threshold.tokens and _rests(session, under):
        return PruneTrigger.SUPPRESSED
    return PruneTrigger.PROACTIVE if 0 < wanted <= session.live_tokens else None


def prune_hold(session: SessionRecord, under: Restraints) -> Suppression | None:
    """Return what blocks automatic pruning: main switch, undo, somebody else who compacts, or the
    mark that the last pass has set."""
    if managed_by(session, under.settings) is not None:
        return Suppression("somebody else compacts this conversation")
    held = suppressed_by(
        PRUNE_RULES,
        under.guards,
        session=session,
        settings=under.settings,
        fingerprint=under.fingerprint,
    )
    mark = prune_mark(session, under.guards)
    if held is None and session.live_tokens < mark:
        return Suppression(f"looked at; again from {mark:,} tokens on", GuardName.PRUNE_MARK)
    return held


def prune_mark(session: SessionRecord, guards: Mapping[GuardName, GuardRecord]) -> int:
    """Return the live tokens below which nothing is pruned, 0 where no pass has set a mark for the
    session's present model and window."""
    mark = guards.get(GuardName.PRUNE_MARK)
    if mark is None or (mark.count, mark.detail or "") != (session_window(session), session.model):
        return 0
    return mark.subject or 0


def _rests(session: SessionRecord, under: Restraints) -> bool:
    """Return whether cooldown or anti-thrash block the pass that the threshold asks for."""
    hold = suppressed_by(
        RULES[Trigger.AFTER_RESPONSE],
        under.guards,
        session=session,
        settings=under.settings,
        fingerprint=under.fingerprint,
    )
    return hold is not None and hold.guard in (GuardName.COOLDOWN, GuardName.POOR_PASSES)


def codex_is_asked(load: Load, under: Restraints) -> bool:
    """Return whether the gateway is to have Codex compact its thread: over the threshold, where
    that is configured, once a turn."""
    session, settings = load.session, under.settings
    if not settings.enabled or settings.codex_app_server_auto != "hermes":
        return False
    if managed_by(session, settings) is not ManagedBy.CODEX:
        return False
    threshold = _threshold(session, settings)
    asked = under.guards.get(GuardName.THREAD_SIGNAL)
    fresh = asked is None or asked.subject != present_turn(session)
    return fresh and threshold is not None and _is_over(load, threshold)


def present_turn(session: SessionRecord) -> int:
    """Return the number of the turn that is open, or of the last closed one."""
    return session.turns + session.turn_open


def _is_over(load: Load, threshold: Threshold) -> bool:
    return load.prompt_tokens is not None and load.prompt_tokens >= threshold.tokens


def _is_held(rules: TriggerRules, session: SessionRecord, under: Restraints) -> bool:
    hold = suppressed_by(
        rules,
        under.guards,
        session=session,
        settings=under.settings,
        fingerprint=under.fingerprint,
    )
    return hold is not None


def _threshold(session: SessionRecord, settings: CompressionSettings) -> Threshold | None:
    try:
        return session_threshold(session, settings)
    except NoUsableWindowError:
        # The session's owner can mend that; its turns go on being stored.
        return None


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
    hold: Suppression | None
    size: int | None = None
    limit: int | None = None


def trigger_statuses(
    load: Load, under: Restraints, *, micro_due: bool, placeholder: bool, down: Suppression | None
) -> tuple[TriggerStatus, ...]:
    """Return the status of every automatic trigger of a session.

    `micro_due` says whether a micro pass has something to absorb, `placeholder` whether one is
    shown, `down` why no summariser can be asked now (`nobody_answers`). Errors of the provider are
    shown as one, `CONTEXT_OVERFLOW`: the same rules hold for all of them.
    """
    return tuple(_statuses(load, under, micro_due, placeholder, down))


def nobody_answers(chain: Sequence[EndpointState | None]) -> Suppression | None:
    """Return what blocks passes while the breaker of every model in the chain is open, else None.

    A model that was never asked, or the built-in summariser, is None in `chain`.
    """
    blocked = [one for one in chain if one is not None and one.is_open and one.open_for_ms > 0]
    if not blocked or len(blocked) < len(chain):
        return None
    first = min(blocked, key=lambda one: one.open_for_ms)
    why = f" ({first.error_class})" if first.error_class else ""
    return Suppression(f"the summariser is down{why}", left_ms=first.open_for_ms)


def _statuses(
    load: Load, under: Restraints, micro_due: bool, placeholder: bool, down: Suppression | None
) -> Iterator[TriggerStatus]:
    session, settings = load.session, under.settings
    threshold = _threshold_trigger_status(load, under)
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
    yield status(Trigger.REPLACE_PLACEHOLDER, placeholder)


def _hold(
    trigger: Trigger, load: Load, under: Restraints, down: Suppression | None
) -> Suppression | None:
    by = managed_by(load.session, under.settings)
    hygiene = trigger in (Trigger.HYGIENE_TOKENS, Trigger.HYGIENE_COUNT)
    if by is ManagedBy.OPENAI and hygiene:
        return _OPENAI
    return _held(RULES[trigger], load, under, down) or _spent(trigger, load, under)


def _spent(trigger: Trigger, load: Load, under: Restraints) -> Suppression | None:
    """Return what blocks a trigger that has acted as often in this turn as it may."""
    of_turn = {
        name: guard for name, guard in under.guards.items() if guard.subject == load.session.turns
    }
    asked = of_turn.get(GuardName.PASSES_OF_TURN)
    most = under.settings.max_attempts
    if trigger is Trigger.PREFLIGHT and asked is not None and (asked.count >= most or asked.detail):
        return Suppression("this turn has had its passes", GuardName.PASSES_OF_TURN)
    if trigger is Trigger.ENGINE and GuardName.ENGINE_REQUEST in of_turn:
        return Suppression("a plugin has asked in this turn", GuardName.ENGINE_REQUEST)
    return None


def _micro_hold(load: Load, under: Restraints, down: Suppression | None) -> Suppression | None:
    if not under.settings.micro_compact:
        return Suppression("micro-compaction is switched off (compression.micro_compact)")
    if managed_by(load.session, under.settings) is ManagedBy.OPENAI:
        return _OPENAI
    return _held(MICRO_RULES, load, under, down)


_OPENAI = Suppression("OpenAI compacts this conversation; ours is the pass after a response")
_CODEX = Suppression("Codex owns this thread and compacts it itself")


def _held(
    rules: TriggerRules, load: Load, under: Restraints, down: Suppression | None
) -> Suppression | None:
    if managed_by(load.session, under.settings) is ManagedBy.CODEX:
        return _CODEX
    hold = suppressed_by(
        rules,
        under.guards,
        session=load.session,
        settings=under.settings,
        fingerprint=under.fingerprint,
    )
    if down is None or rules.bypasses or not under.settings.enabled:
        return hold
    return down if hold is None else max(hold, down, key=lambda one: one.left_ms)


def _threshold_trigger_status(load: Load, under: Restraints) -> Threshold | None:
    try:
        return session_threshold(load.session, under.settings)
    except NoUsableWindowError:
        return None
