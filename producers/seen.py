"""A batch job as somebody sees it who waits for it."""

from __future__ import annotations

from dataclasses import dataclass

from producers.compaction import Status
from storage.attempts import AttemptRecord
from storage.job_records import JobStanding
from storage.jobs import JobState
from storage.outcomes import CHANGED_VIEW, Outcome
from workers.batch.failure_policy import is_poor

_ON_THE_WAY = frozenset({Outcome.FAILED, Outcome.SUPPRESSED, Outcome.STALE, Outcome.PRUNED})
"""Tries that did not come to an end of their own; `pruned` is the first layer of one that went
on."""
_SUMMARISED = frozenset({Outcome.COMPACTED, Outcome.PLACEHOLDER})


@dataclass(frozen=True, slots=True)
class Seen:
    """How a job stands at one look, None where it is not stored any more, and its tries since it
    was asked for, oldest first."""

    standing: JobStanding | None
    tries: list[AttemptRecord]

    @property
    def outcome(self) -> str | None:
        return self.tries[-1].outcome if self.tries else None

    @property
    def error_class(self) -> str | None:
        """Of the last try; a job that waits before its first one says why (ENGINE.md §10)."""
        if self.tries:
            return self.tries[-1].error_class
        return self.standing.reason if self.standing is not None and self.left_ms else None

    @property
    def passes(self) -> int:
        """Tries that came to an end of their own."""
        return sum(one.outcome not in _ON_THE_WAY for one in self.tries)

    @property
    def changed(self) -> bool:
        return any(one.outcome in CHANGED_VIEW for one in self.tries)

    @property
    def stuck(self) -> bool:
        """Whether the last summary left nearly everything (ENGINE.md §10)."""
        summarised = [one for one in self.tries if one.outcome in _SUMMARISED]
        return bool(summarised) and is_poor(
            summarised[-1].tokens_before, summarised[-1].tokens_after
        )

    @property
    def left_ms(self) -> int:
        """How long the job is not due yet."""
        return self.standing.left_ms if self.standing is not None and self._open else 0

    def over(self, patience_ms: float) -> bool:
        """Whether no further look within the patience can tell more.

        A job that waits after a pass that changed something waits for work of its own, such as
        healing a placeholder.
        """
        return not self._open or self.left_ms > patience_ms or (self.changed and self.left_ms > 0)

    @property
    def status(self) -> Status:
        if self.changed and (not self._open or self.left_ms):
            return Status.CHANGED
        if self._open:
            return Status.POSTPONED if self.left_ms else Status.PENDING
        dead = self.standing is not None and self.standing.state is JobState.DEAD
        match self.outcome:
            case None if dead:
                return Status.FAILED
            case Outcome.FAILED:
                return Status.FAILED
            case Outcome.SUPPRESSED:
                return Status.HELD_BACK
            case _:
                return Status.UNCHANGED

    @property
    def _open(self) -> bool:
        return self.standing is not None and self.standing.is_open
