"""Plan a pruning pass of a session in one short read of its live view."""

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
    """There is no pass to make. `reason` says why in a few words; `tokens` is what could have been
    freed, too little to break a prompt cache for."""

    reason: str
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class PrunePlan:
    """A pass as it is decided. `spared` are the live tokens that it frees, of an estimate."""

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
    """Decide the next pruning pass of a session: only one that frees at least `least` tokens.

    What may be touched is what a batch pass for a trigger with these `rules` would take: whole
    groups outside head and tail, of an open turn only where the trigger may enter it.
    """
    session = sessions.fetch(connection, key)
    try:
        threshold = session_threshold(session, settings)
    except NoUsableWindowError as error:
        # The session's owner can mend that, the worker cannot.
        return NothingToPrune(str(error))
    view = messages.read_view(connection, key)
    groups = tool_groups(view)
    regions = region_rules(threshold, settings)
    old = old_rows(view, regions, rules, turn_open=session.turn_open, groups=groups)
    rows = shorten(view, old, prune_rules(settings), session_key=key, groups=groups)
    plan = PrunePlan(session, threshold, rows)
    if not rows:
        return NothingToPrune("no old tool output is left that a note could take the place of")
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
    """Return the rules as the settings have them."""
    registry = Registry(
        exempt=settings.proactive_prune_exempt_tools, forms=settings.proactive_prune_tool_forms
    )
    return PruneRules(settings.proactive_prune_min_result_chars, registry)
