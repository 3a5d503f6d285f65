"""Decide what is due for a session by its size (see docs/explanation/triggers.md)."""

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
"""Micro-compaction has its own failure count and checks the breaker itself."""


@dataclass(frozen=True, slots=True)
class Load:
    """The size of a session: `prompt_tokens` as the provider counted the current view, None if
    unknown, and our estimate of what is stored.

    `rested` says that a cooldown has just ended. What it suppressed is then caught up on, so the
    estimate counts as if the provider had reported it.
    """

    session: SessionRecord
    calibration: Calibration
    prompt_tokens: int | None = None
    rested: bool = False

    @property
    def estimate(self) -> int:
        """Tokens that the provider would count now."""
        return self.calibration.estimate(self.session.live_tokens)


@dataclass(frozen=True, slots=True)
class Restraints:
    """What decides besides the session whether a trigger may act.

    `guards` are read together with the session; `fingerprint` is the current summariser's.
    """

    settings: CompressionSettings
    guards: Mapping[GuardName, GuardRecord]
    fingerprint: int


def batch_due(load: Load, under: Restraints) -> Trigger | None:
    """Return the trigger of highest priority for a batch pass whose condition holds and that
    nothing suppresses."""
    met = triggers_met(load, under.settings)
    free = [one for one in met if _suppression(RULES[one], load.session, under) is None]
    return max(free, key=lambda trigger: RULES[trigger].priority, default=None)


def triggers_met(load: Load, settings: CompressionSettings) -> tuple[Trigger, ...]:
    """Return the triggers of a batch pass whose condition holds, suppressed or not.

    If OpenAI compacts the session, what we store is not what is sent, so only a usage report
    counts. A session that a Codex app server owns has no triggers.
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
    """Return whether the session's rows have to be read to decide: there may be enough to absorb,
    and the session has grown since its rows were last found to be too few.

    What is found does not depend on when a session is decided about, so the end is the same
    whatever is late, lost or repeated.
    """
    least = least_for_micro(session, settings)
    if least is None or session.unabsorbed_tokens < least:
        return False
    return session.checked_tokens is None or session.unabsorbed_tokens > session.checked_tokens


def least_for_micro(session: SessionRecord, settings: CompressionSettings) -> int | None:
    """Return the unabsorbed tokens below which no micro pass can be due; None if none can be at
    all. Rewrites of the summary do not count: they follow the pass that made it too long.

    The tail is unabsorbed too, so a pass needs its own tokens on top of the tail's. The tail fills
    its budget unless the next row would push it over its ceiling.
    """
    threshold = _threshold(session, settings)
    if threshold is None:
        return None
    budget = region_rules(threshold, settings).tail_budget
    enough = settings.micro_compact_min_tokens
    return min(budget + enough, max(int(SOFT_CEILING * budget), enough))


def micro_may_run(session: SessionRecord, under: Restraints) -> bool:
    """Return whether micro-compaction is on, the session is ours to compact, and nothing
    suppresses it."""
    if not under.settings.micro_compact or managed_by(session, under.settings) is not None:
        return False
    return _suppression(MICRO_RULES, session, under) is None


def prune_due(load: Load, under: Restraints) -> PruneTrigger | None:
    """Return the trigger of a prune pass that is due; None if none is, or it is suppressed. A batch
    pass prunes first itself."""
    suppressed = prune_suppression(load.session, under) is not None
    return None if suppressed else prune_condition(load, under)


def prune_condition(load: Load, under: Restraints) -> PruneTrigger | None:
    """Return the condition that holds: over the threshold while cooldown or anti-thrash suppress
    summaries, or at `proactive_prune_tokens`."""
    session, wanted = load.session, under.settings.proactive_prune_tokens
    threshold = _threshold(session, under.settings)
    size = max(load.prompt_tokens or 0, load.estimate)
    if threshold is not None and size >= threshold.tokens and _summaries_pause(session, under):
        return PruneTrigger.SUPPRESSED
    return PruneTrigger.PROACTIVE if 0 < wanted <= session.live_tokens else None


def prune_suppression(session: SessionRecord, under: Restraints) -> Suppression | None:
    """Return what suppresses automatic pruning: main switch, undo, a provider that compacts, or
    the mark that the last pass set."""
    if managed_by(session, under.settings) is not None:
        return Suppression("the provider compacts this conversation")
    found = _suppression(PRUNE_RULES, session, under)
    mark = prune_mark(session, under.guards)
    if found is None and session.live_tokens < mark:
        return Suppression(f"checked; next at {mark:,} tokens", GuardName.PRUNE_MARK)
    return found


def prune_mark(session: SessionRecord, guards: Mapping[GuardName, GuardRecord]) -> int:
    """Return the live tokens below which nothing is pruned; 0 if no pass has set a mark for the
    session's current model and window."""
    mark = guards.get(GuardName.PRUNE_MARK)
    if mark is None or (mark.count, mark.detail or "") != (session_window(session), session.model):
        return 0
    return mark.subject or 0


def _summaries_pause(session: SessionRecord, under: Restraints) -> bool:
    """Return whether cooldown or anti-thrash suppress the pass after a response."""
    found = _suppression(RULES[Trigger.AFTER_RESPONSE], session, under)
    return found is not None and found.guard in (GuardName.COOLDOWN, GuardName.POOR_PASSES)


def codex_is_asked(load: Load, under: Restraints) -> bool:
    """Return whether the gateway has to ask Codex to compact its thread: over the threshold, if
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
    """Return the number of the open turn, or of the last closed one."""
    return session.turns + session.turn_open


def _is_over(load: Load, threshold: Threshold) -> bool:
    return load.prompt_tokens is not None and load.prompt_tokens >= threshold.tokens


def _suppression(
    rules: TriggerRules, session: SessionRecord, under: Restraints
) -> Suppression | None:
    return suppressed_by(
        rules,
        under.guards,
        session=session,
        settings=under.settings,
        fingerprint=under.fingerprint,
    )


def _threshold(session: SessionRecord, settings: CompressionSettings) -> Threshold | None:
    try:
        return session_threshold(session, settings)
    except NoUsableWindowError:
        # Only the session's owner can fix that; its turns are stored all the same.
        return None


MICRO = "micro"
"""Name of micro-compaction among the triggers of a batch pass."""

PRUNE = "prune"
"""Name of pruning among the triggers of a batch pass."""


@dataclass(frozen=True, slots=True)
class TriggerStatus:
    """The current status of one trigger; `trigger` is one of `Trigger`, `MICRO` or `PRUNE`.

    `met` says whether its condition holds, None if an event decides that and not the session: an
    error, a plugin. `size` is compared with `limit`; both are None if nothing is compared, `size`
    also if it is unknown. `hold` is what suppresses the pass if it is due.
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
    shown, `down` why no summariser can be asked now (`nobody_answers`). `CONTEXT_OVERFLOW`
    represents all errors of the provider, because they share one set of rules.
    """
    return tuple(_statuses(load, under, micro_due, placeholder, down))


def nobody_answers(chain: Sequence[EndpointState | None]) -> Suppression | None:
    """Return what suppresses passes while the breaker of every model in the chain is open, else
    None.

    A model that was never asked, or the built-in summariser, is None in `chain`.
    """
    down = [one for one in chain if one is not None and one.is_open and one.open_for_ms > 0]
    if not down or len(down) < len(chain):
        return None
    first = min(down, key=lambda one: one.open_for_ms)
    why = f" ({first.error_class})" if first.error_class else ""
    return Suppression(f"the summariser is down{why}", left_ms=first.open_for_ms)


def _statuses(
    load: Load, under: Restraints, micro_due: bool, placeholder: bool, down: Suppression | None
) -> Iterator[TriggerStatus]:
    session, settings = load.session, under.settings
    threshold = _threshold(session, settings)
    tokens = threshold.tokens if threshold else None
    met = triggers_met(load, settings)
    most = settings.hygiene_hard_message_limit

    def status(
        trigger: Trigger, holds: bool | None, size: int | None = None, limit: int | None = None
    ) -> TriggerStatus:
        suppression = _batch_suppression(trigger, load, under, down)
        return TriggerStatus(trigger, holds, suppression, size, limit)

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
    yield TriggerStatus(MICRO, micro_due, _micro_suppression(load, under, down))
    yield TriggerStatus(
        PRUNE,
        prune_condition(load, under) is not None,
        prune_suppression(session, under),
        session.live_tokens,
        under.settings.proactive_prune_tokens or tokens,
    )
    yield status(Trigger.REPLACE_PLACEHOLDER, placeholder)


def _batch_suppression(
    trigger: Trigger, load: Load, under: Restraints, down: Suppression | None
) -> Suppression | None:
    by = managed_by(load.session, under.settings)
    hygiene = trigger in (Trigger.HYGIENE_TOKENS, Trigger.HYGIENE_COUNT)
    if by is ManagedBy.OPENAI and hygiene:
        return _OPENAI
    by_guards = _guard_suppression(RULES[trigger], load, under, down)
    return by_guards or _turn_limit(trigger, load, under)


def _turn_limit(trigger: Trigger, load: Load, under: Restraints) -> Suppression | None:
    """Return what suppresses a trigger that has acted as often in this turn as it may."""
    of_turn = {
        name: guard for name, guard in under.guards.items() if guard.subject == load.session.turns
    }
    asked = of_turn.get(GuardName.PASSES_OF_TURN)
    most = under.settings.max_attempts
    if trigger is Trigger.PREFLIGHT and asked is not None and (asked.count >= most or asked.detail):
        return Suppression("this turn has used up its passes", GuardName.PASSES_OF_TURN)
    if trigger is Trigger.ENGINE and GuardName.ENGINE_REQUEST in of_turn:
        return Suppression("a plugin has already asked in this turn", GuardName.ENGINE_REQUEST)
    return None


def _micro_suppression(
    load: Load, under: Restraints, down: Suppression | None
) -> Suppression | None:
    if not under.settings.micro_compact:
        return Suppression("micro-compaction is switched off (compression.micro_compact)")
    if managed_by(load.session, under.settings) is ManagedBy.OPENAI:
        return _OPENAI
    return _guard_suppression(MICRO_RULES, load, under, down)


_OPENAI = Suppression("OpenAI compacts this conversation; only the pass after a response is ours")
_CODEX = Suppression("Codex owns this thread and compacts it itself")


def _guard_suppression(
    rules: TriggerRules, load: Load, under: Restraints, down: Suppression | None
) -> Suppression | None:
    if managed_by(load.session, under.settings) is ManagedBy.CODEX:
        return _CODEX
    found = _suppression(rules, load.session, under)
    if down is None or rules.bypasses or not under.settings.enabled:
        return found
    return down if found is None else max(found, down, key=lambda one: one.left_ms)
