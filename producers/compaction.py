"""What came of a request for compaction."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from workers.batch.failure_policy import STUCK_SENTENCE
from workers.holds import Hold
from workers.triggers import Trigger

PROGRESS = 0.95
"""A pass that leaves fewer rows, or less than this share of the tokens, made progress
(ENGINE.md §9, row 2)."""


class Status(StrEnum):
    NOT_NEEDED = "not_needed"
    """The session is below its limits: nothing was made due."""
    HELD_BACK = "held_back"
    """A guard holds the pass back: `Compaction.held_by` says which one and for how long."""
    SPENT = "spent"
    """As many passes as one turn may have were asked for, or one more would change nothing."""
    PENDING = "pending"
    """Not done yet: the pass is due or runs. Ask again, and wait longer, to learn what comes."""
    POSTPONED = "postponed"
    """Not done yet, and not soon: the job waits until `Compaction.left_ms` are over."""
    CHANGED = "changed"
    """A pass changed the view."""
    UNCHANGED = "unchanged"
    """A pass found nothing to compact, or its summary would not have been smaller."""
    FAILED = "failed"
    """No pass came about and the session is as it was."""


_WORDS = {
    Status.NOT_NEEDED: "the session is below its limits",
    Status.SPENT: "this turn has had the passes that it may have",
    Status.PENDING: "the pass is due or runs; it is not done yet",
    Status.CHANGED: "the session was compacted",
    Status.UNCHANGED: "nothing could be compacted",
    Status.FAILED: "the pass failed and the session is as it was",
}


@dataclass(frozen=True, slots=True)
class Compaction:
    """What came of a request, told as it is: nothing here is expected or rounded.

    `passes` ended while the caller waited; rows and stored tokens of the live view are those
    before the first and after the last of them, or of now where there was none. `changed` says
    that one of them changed the view, `stuck` that the last one left 90 % or more. `outcome` and
    `error_class` are those of the last one, as `afterturn sessions show` lists them. `left_ms` is
    how long a hold or a wait still lasts, 0 where no time is known.
    """

    status: Status
    trigger: Trigger | None
    messages_before: int
    messages_after: int
    tokens_before: int
    tokens_after: int
    passes: int = 0
    changed: bool = False
    stuck: bool = False
    outcome: str | None = None
    error_class: str | None = None
    held_by: Hold | None = None
    left_ms: int = 0
    job_id: int | None = None

    @property
    def pending(self) -> bool:
        """Whether a pass is still to come, sooner or later."""
        return self.status in (Status.PENDING, Status.POSTPONED)

    @property
    def smaller(self) -> bool:
        """Whether progress was made: fewer rows, or more than 5 % fewer tokens."""
        return self.changed and (
            self.messages_after < self.messages_before
            or self.tokens_after < PROGRESS * self.tokens_before
        )

    @property
    def reason(self) -> str:
        """The status in words, for a log."""
        seconds = f"{self.left_ms / 1000:,.0f} s"
        match self.status:
            case Status.HELD_BACK if self.held_by is not None:
                until = f" for {seconds}" if self.left_ms else ""
                return f"held back{until}: {self.held_by.reason}"
            case Status.HELD_BACK:
                return "held back by a guard"
            case Status.POSTPONED:
                after = f" after {self.error_class}" if self.error_class else ""
                return f"the pass waits for {seconds}{after}"
            case Status.FAILED | Status.UNCHANGED | Status.CHANGED:
                detail = self.error_class or self.outcome
                return _WORDS[self.status] + (f" ({detail})" if detail else "")
            case status:
                return _WORDS[status]

    def then(self, later: Compaction) -> Compaction:
        """Both in a row: figures from the first to the last pass, all else of the later one."""
        if self.passes == 0:
            return later
        if later.passes == 0:
            return replace(
                later,
                messages_before=self.messages_before,
                messages_after=self.messages_after,
                tokens_before=self.tokens_before,
                tokens_after=self.tokens_after,
                passes=self.passes,
                changed=self.changed,
                stuck=self.stuck,
                outcome=self.outcome,
                error_class=self.error_class,
            )
        return replace(
            later,
            messages_before=self.messages_before,
            tokens_before=self.tokens_before,
            passes=self.passes + later.passes,
            changed=self.changed or later.changed,
        )


class CompressionStuck(RuntimeError):
    """A pass left 90 % of the session or more: it cannot be made smaller (ENGINE.md §10).

    Its user needs a new one, which `sentence` says. What the pass did is stored, as `compaction`
    tells, and turns go on being taken. `tokens` is the session's size, `threshold` where
    compaction starts (None where the window leaves no room).
    """

    def __init__(
        self, session_id: str, tokens: int, threshold: int | None, compaction: Compaction
    ) -> None:
        self.session_id = session_id
        self.tokens = tokens
        self.threshold = threshold
        self.compaction = compaction
        self.sentence = STUCK_SENTENCE
        left = f"{compaction.tokens_after:,} of {compaction.tokens_before:,} tokens are left"
        super().__init__(f"session {session_id!r}: {left}. {STUCK_SENTENCE}")
