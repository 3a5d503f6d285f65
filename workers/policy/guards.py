"""What blocks a pass, whoever asks for it (see docs/explanation/triggers.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from storage.conversations.sessions import SessionRecord
from storage.guards import GuardName, GuardRecord
from workers.policy.threshold import NoUsableWindowError, session_threshold
from workers.policy.triggers import TriggerRules
from workers.settings import CompressionSettings

MOST_POOR_PASSES = 2
"""Passes in a row that hardly saved anything, after which automatic ones are locked for a while
(anti-thrash)."""

GROWTH = 0.05
"""Share of the threshold by which a session has grown since a summary did not make it smaller,
before one is tried again."""


@dataclass(frozen=True, slots=True)
class Suppression:
    """Why a pass must not run now, in words for people.

    `guard` is what operators may clear, None for the main switch. `left_ms` is how long it still
    holds, 0 where that is no matter of time.
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
    """Return what blocks a pass for a trigger with these `rules`; None when it may run.

    Of several reasons it is the one with the most time left. `guards` are the session's, read
    together with `session`; `fingerprint` is the present summariser's. The main switch stops
    errors too, but no person; a trigger that bypasses the guards bypasses all of them.
    """
    if rules.honours_switch and not settings.enabled:
        return Suppression("compaction is switched off (compression.enabled)")
    if rules.bypasses:
        return None
    return max(
        _holds(rules, guards, session, settings, fingerprint),
        key=lambda hold: hold.left_ms,
        default=None,
    )


def _holds(
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
    if rules.honours_cooldown and cooldown is not None and _cools(cooldown, fingerprint):
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


def _cools(cooldown: GuardRecord, fingerprint: int) -> bool:
    """Return whether a cooldown holds now. A change of summariser ends it; one that names none
    holds for all."""
    return cooldown.left_ms > 0 and cooldown.subject in (None, fingerprint)


def _has_grown(session: SessionRecord, settings: CompressionSettings, *, since: int) -> bool:
    try:
        threshold = session_threshold(session, settings).tokens
    except NoUsableWindowError:
        return False
    return session.live_tokens - since >= threshold * GROWTH
