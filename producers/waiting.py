"""Bounded waiting for a job, without an open transaction meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from producers.results import Status
from storage.attempts import AttemptRecord
from storage.jobs import JobState
from storage.jobs.job_records import JobOverview
from storage.outcomes import CHANGED_VIEW, Outcome
from workers.policy.failures import is_poor

T = TypeVar("T")

FIRST_PAUSE_SECONDS = 0.02
LONGEST_PAUSE_SECONDS = 0.25

_UNFINISHED = frozenset({Outcome.FAILED, Outcome.SUPPRESSED, Outcome.STALE, Outcome.PRUNED})
"""Attempts after which the pass continues or starts again; `pruned` is the first step of one."""
_SUMMARISED = frozenset({Outcome.COMPACTED, Outcome.PLACEHOLDER})


class Deadline:
    """The time until which a caller waits, over any number of passes.

    `clock` returns monotonic seconds, `sleep` waits for a number of them. `granted` says whether
    there was any time at all.
    """

    def __init__(
        self,
        seconds: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._until = clock() + seconds
        self.granted = seconds > 0

    @property
    def left(self) -> float:
        """The remaining seconds, at least 0."""
        return max(0.0, self._until - self._clock())

    def pause(self, seconds: float) -> bool:
        """Sleep for `seconds` or the remaining time; return False when there was none."""
        left = self.left
        if left <= 0:
            return False
        self._sleep(min(seconds, left))
        return True


def poll(peek: Callable[[], T], is_over: Callable[[T], bool], deadline: Deadline) -> T:
    """Call `peek` at growing intervals until `is_over` or the deadline; return the last value.

    `peek` must be short and keep no transaction open.
    """
    pause = FIRST_PAUSE_SECONDS
    while True:
        value = peek()
        if is_over(value) or not deadline.pause(pause):
            return value
        pause = min(2 * pause, LONGEST_PAUSE_SECONDS)


@dataclass(frozen=True, slots=True)
class JobSnapshot:
    """A batch job and its attempts since the request, oldest first.

    `job` is None when the job is no longer stored.
    """

    job: JobOverview | None
    attempts: Sequence[AttemptRecord]

    @property
    def outcome(self) -> str | None:
        """The outcome of the last attempt."""
        return self.attempts[-1].outcome if self.attempts else None

    @property
    def error_class(self) -> str | None:
        """The error of the last attempt; of a job that waits before its first one, the reason."""
        if self.attempts:
            return self.attempts[-1].error_class
        return self.job.reason if self.job is not None and self.left_ms else None

    @property
    def passes(self) -> int:
        """The number of attempts that ended the pass."""
        return sum(one.outcome not in _UNFINISHED for one in self.attempts)

    @property
    def changed(self) -> bool:
        """Whether an attempt changed the view."""
        return any(one.outcome in CHANGED_VIEW for one in self.attempts)

    @property
    def stuck(self) -> bool:
        """Whether the last summary left nearly everything."""
        summarised = [one for one in self.attempts if one.outcome in _SUMMARISED]
        return bool(summarised) and is_poor(
            summarised[-1].tokens_before, summarised[-1].tokens_after
        )

    @property
    def left_ms(self) -> int:
        """Milliseconds until the job is due."""
        return self.job.left_ms if self.job is not None and self._is_open else 0

    def is_final(self, within_ms: float) -> bool:
        """Return whether no snapshot within the next `within_ms` can differ.

        A job that waits after a pass that changed something waits for further work, such as the
        replacement of a placeholder.
        """
        return not self._is_open or self.left_ms > within_ms or (self.changed and self.left_ms > 0)

    @property
    def status(self) -> Status:
        """The status of the request."""
        if self.changed and (not self._is_open or self.left_ms):
            return Status.CHANGED
        if self._is_open:
            return Status.POSTPONED if self.left_ms else Status.PENDING
        dead = self.job is not None and self.job.state is JobState.DEAD
        if self.outcome == Outcome.FAILED or (self.outcome is None and dead):
            return Status.FAILED
        return Status.SUPPRESSED if self.outcome == Outcome.SUPPRESSED else Status.UNCHANGED

    @property
    def _is_open(self) -> bool:
        return self.job is not None and self.job.is_open
