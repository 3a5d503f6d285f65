"""Plan a prune pass of a session in one short read of its live view."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from storage.conversations import messages, sessions
from storage.conversations.pruned import ShortForm
from storage.conversations.rows import Row
from storage.conversations.sessions import SessionRecord
from workers.batch.span import CompactionOptions, divide
from workers.conversation.regions import RegionRules
from workers.conversation.transcript import ToolGroup, tool_groups
from workers.policy.threshold import NoUsableWindowError, Threshold, region_rules, session_threshold
from workers.policy.triggers import TriggerRules
from workers.prune.forms import Registry
from workers.prune.rules import PruneRules, Shortened, shorten
from workers.settings import CompressionSettings


@dataclass(frozen=True, slots=True)
class NothingToPrune:
    """No pass to make. `reason` says why in a few words; `tokens` could have been freed, too few to
    invalidate a prompt cache for."""

    reason: str
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class PrunePlan:
    """A planned pass. `spared` are the live tokens that it frees, by estimate."""

    session: SessionRecord
    threshold: Threshold
    rows: tuple[Shortened, ...]

    @property
    def spared(self) -> int:
        return sum(one.spared for one in self.rows)

    @property
    def forms(self) -> list[ShortForm]:
        """The short forms as they are stored."""
        return [
            ShortForm(one.row.position, one.message, one.tokens, one.spared, one.same_as)
            for one in self.rows
        ]


def plan_prune(
    connection: Connection,
    key: int,
    settings: CompressionSettings,
    rules: TriggerRules,
    *,
    least: int,
) -> PrunePlan | NothingToPrune:
    """Plan the next prune pass of a session, if it frees at least `least` tokens.

    It may touch the rows that a batch pass for a trigger with these `rules` would take: whole
    groups outside head and tail, those of an open turn only if the trigger may enter it.
    """
    session = sessions.fetch(connection, key)
    try:
        threshold = session_threshold(session, settings)
    except NoUsableWindowError as error:
        # Only the session's owner can fix that.
        return NothingToPrune(str(error))
    view = messages.read_view(connection, key)
    groups = tool_groups(view)
    regions = region_rules(threshold, settings)
    old = old_rows(view, regions, rules, turn_open=session.turn_open, groups=groups)
    rows = shorten(view, old, prune_rules(settings), session_key=key, groups=groups)
    plan = PrunePlan(session, threshold, rows)
    if not rows:
        return NothingToPrune("no old tool output is left that a note could replace")
    if plan.spared < least:
        return NothingToPrune(f"only {plan.spared:,} tokens could be freed", plan.spared)
    return plan


def old_rows(
    view: Sequence[Row],
    regions: RegionRules,
    rules: TriggerRules,
    *,
    turn_open: bool,
    groups: Sequence[ToolGroup] | None = None,
) -> frozenset[int]:
    """Return the indexes of the rows of a whole live view that lie outside head and tail."""
    _, span = divide(view, regions, rules, CompactionOptions(), turn_open=turn_open, groups=groups)
    positions = {row.position for row in span.messages}
    return frozenset(
        i for i, row in enumerate(view) if row.position in positions and not row.kind.is_marker
    )


def prune_rules(settings: CompressionSettings) -> PruneRules:
    """Build the prune rules from the settings."""
    registry = Registry(
        exempt=settings.proactive_prune_exempt_tools, forms=settings.proactive_prune_tool_forms
    )
    return PruneRules(settings.proactive_prune_min_result_chars, registry)
