"""Decide whether the guards of a session suppress a pass (see docs/explanation/triggers.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from storage.conversations.sessions import SessionRecord
from storage.guards import GuardName, GuardRecord
from workers.policy.threshold import NoUsableWindowError, session_threshold
from workers.policy.triggers import TriggerRules
from workers.settings import CompressionSettings

MOST_POOR_PASSES = 2
"""Passes in a row that hardly saved anything after which automatic ones are locked for a while
(anti-thrash)."""

GROWTH = 0.05
"""Share of the threshold by which a session has to grow before a summary that did not make it
smaller is tried again."""


@dataclass(frozen=True, slots=True)
class Suppression:
    """The reason, in words for people, why a pass must not run now.

    `guard` is what an operator may clear, None for the main switch. `left_ms` is how long it still
    lasts, 0 if time does not end it.
    """

    reason: str
    guard: GuardName | None = None
    left_ms: int = 0


def suppressed_by(
    rules: TriggerRules,
    guards: Mapping[GuardName, GuardRecord],
    *,
    session: SessionRecord,
    settings: CompressionSettings,
    fingerprint: int,
) -> Suppression | None:
    """Return what suppresses a pass for a trigger with these `rules`; None if it may run.

    Of several reasons, the one with the most time left is returned. `guards` are the session's,
    read together with `session`; `fingerprint` is the current summariser's. The main switch
    suppresses passes after errors too, but not those that a person asks for; a trigger that
    bypasses guards bypasses all of them.
    """
    if rules.honours_switch and not settings.enabled:
        return Suppression("compaction is switched off (compression.enabled)")
    if rules.bypasses:
        return None
    return max(
        _suppressions(rules, guards, session, settings, fingerprint),
        key=lambda one: one.left_ms,
        default=None,
    )


def _suppressions(
    rules: TriggerRules,
    guards: Mapping[GuardName, GuardRecord],
    session: SessionRecord,
    settings: CompressionSettings,
    fingerprint: int,
) -> Iterator[Suppression]:
    undone = guards.get(GuardName.UNDONE)
    if rules.honours_switch and undone is not None and undone.subject == session.turns:
        yield Suppression("an undo waits for the next turn", GuardName.UNDONE)

    cooldown = guards.get(GuardName.COOLDOWN)
    if rules.honours_cooldown and cooldown is not None and _is_active(cooldown, fingerprint):
        why = f" ({cooldown.detail})" if cooldown.detail else ""
        yield Suppression(f"cooldown after a failure{why}", GuardName.COOLDOWN, cooldown.left_ms)

    poor = guards.get(GuardName.POOR_PASSES)
    if (
        rules.honours_thrash
        and poor is not None
        and poor.count >= MOST_POOR_PASSES
        and poor.left_ms > 0
    ):
        reason = f"the last {poor.count} passes hardly saved anything"
        yield Suppression(reason, GuardName.POOR_PASSES, poor.left_ms)

    if not rules.honours_no_op:
        return
    nothing = guards.get(GuardName.NOTHING_TO_COMPACT)
    if (
        nothing is not None
        and nothing.subject == session.revision
        and nothing.count == session.next_position
    ):
        why = f": {nothing.detail}" if nothing.detail else ""
        yield Suppression(f"nothing to compact{why}", GuardName.NOTHING_TO_COMPACT)

    larger = guards.get(GuardName.NOT_SMALLER)
    if (
        larger is not None
        and larger.subject == session.revision
        and not _has_grown(session, settings, since=larger.count)
    ):
        reason = "a summary would not have made the conversation smaller"
        yield Suppression(reason, GuardName.NOT_SMALLER)


def _is_active(cooldown: GuardRecord, fingerprint: int) -> bool:
    """Return whether a cooldown applies now. A change of summariser ends it; one that names no
    summariser applies to all."""
    return cooldown.left_ms > 0 and cooldown.subject in (None, fingerprint)


def _has_grown(session: SessionRecord, settings: CompressionSettings, *, since: int) -> bool:
    try:
        threshold = session_threshold(session, settings).tokens
    except NoUsableWindowError:
        return False
    return session.live_tokens - since >= threshold * GROWTH
