"""The triggers of a pruning pass. See docs/explanation/pruning.md."""

from __future__ import annotations

from enum import StrEnum

from workers.triggers import TriggerRules

PRUNE_QUEUE = "prune"


class PruneTrigger(StrEnum):
    HELD_BACK = "held_back"
    """Over the threshold, while cooldown or anti-thrash suppress summaries."""
    PROACTIVE = "proactive"
    """`proactive_prune_tokens` was reached."""
    MANUAL = "manual"
    """A person asked: past the main switch, the mark and the least that a pass must free."""


STRENGTH = {PruneTrigger.PROACTIVE: 2, PruneTrigger.HELD_BACK: 4, PruneTrigger.MANUAL: 70}

PRUNE_RULES = TriggerRules(
    STRENGTH[PruneTrigger.PROACTIVE],
    honours_cooldown=False,
    honours_thrash=False,
    honours_no_op=False,
    prunes_first=False,
)
"""How the automatic ones are treated: main switch and undo suppress them, nothing else does."""
