"""The outcomes of passes: one name each, wherever a pass shows.

The same word is used in the attempts table, log lines, metrics, the audit trail, Flower and on the
command line; see docs/reference/outcomes.md.
"""

from __future__ import annotations

from enum import StrEnum


class Outcome(StrEnum):
    """How a pass ended. A row of a newer version may contain other words."""

    ABSORBED = "absorbed"
    """Old exchanges went into the rolling summary."""
    DEFRAGMENTED = "defragmented"
    """The rolling summary was rewritten shorter."""
    DEFRAG_REJECTED = "defrag_rejected"
    """The rewrite was not small enough; the next one is due at a larger size only."""
    SKIPPED = "skipped"
    """The model failed on an exchange three times: the cursor is past it, its rows stay live."""

    COMPACTED = "compacted"
    """A summary took the middle's place."""
    PLACEHOLDER = "placeholder"
    """A placeholder took the middle's place, because the summariser failed."""
    PLACEHOLDER_REPLACED = "placeholder_replaced"
    """A real summary took a placeholder's place."""
    RESET = "reset"
    """Everything but head, last good summary and newest turn was archived."""

    PRUNED = "pruned"
    """Old tool output is shown in short forms."""
    PRUNED_ENOUGH = "pruned_enough"
    """As `pruned`, and the view is below its threshold: no model was called."""

    NOTHING_DUE = "nothing_due"
    """There is nothing to do for a pass now. Not a failure."""
    NOT_SMALLER = "not_smaller"
    """The summary would not have made the view smaller; it was refused."""
    SUPPRESSED = "suppressed"
    """A guard or a setting suppresses the pass now."""
    FAILED = "failed"
    """There was no usable answer; the job is retried later."""
    GAVE_UP = "gave_up"
    """The last attempt failed and the session stays as it is."""
    STALE = "stale"
    """The session was changed between plan and commit; nothing was written."""
    HANDED_BACK = "handed_back"
    """The worker stops or lost the job; another one goes on."""

    @property
    def goes_on(self) -> bool:
        """Whether the job looks for a further pass afterwards."""
        return self in _GOES_ON

    @property
    def moves_cursor(self) -> bool:
        """Whether micro-compaction goes on after the exchanges of the pass."""
        return self in (Outcome.ABSORBED, Outcome.SKIPPED)


CHANGED_VIEW: frozenset[str] = frozenset(
    {
        Outcome.ABSORBED,
        Outcome.DEFRAGMENTED,
        Outcome.COMPACTED,
        Outcome.PLACEHOLDER,
        Outcome.PLACEHOLDER_REPLACED,
        Outcome.RESET,
        Outcome.PRUNED,
        Outcome.PRUNED_ENOUGH,
    }
)
"""Outcomes that change the live view, as they are stored."""

_GOES_ON = frozenset(
    {
        Outcome.ABSORBED,
        Outcome.DEFRAGMENTED,
        Outcome.DEFRAG_REJECTED,
        Outcome.SKIPPED,
        Outcome.STALE,
    }
)
