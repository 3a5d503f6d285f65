"""The result of a gateway's request for compaction."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from producers import late
from producers.measure import Size
from storage.errors import AfterturnError
from workers.policy.guards import Suppression
from workers.policy.triggers import Trigger

if TYPE_CHECKING:
    from workers.provider_errors.errors import ApiErrorKind

PROGRESS = 0.95
"""A pass made progress if it left fewer rows, or less than this share of the tokens."""


class Status(StrEnum):
    """The state of a request for compaction."""

    NOT_NEEDED = "not_needed"
    """The session is below its limits: nothing was enqueued."""
    NOT_RECOGNISED = "not_recognised"
    """A smaller session does not solve the provider's error: nothing was enqueued."""
    SUPPRESSED = "suppressed"
    """A guard suppresses the pass: `Compaction.suppressed_by` says which one, and for how long."""
    SPENT = "spent"
    """The turn had as many passes as it may have, or another one would change nothing."""
    PENDING = "pending"
    """Not done yet: the pass is due or runs. Repeat the call, and wait longer, for its outcome."""
    POSTPONED = "postponed"
    """Not done soon: the job waits until `Compaction.left_ms` have passed."""
    CHANGED = "changed"
    """A pass changed the view."""
    UNCHANGED = "unchanged"
    """A pass found nothing to compact, or its summary would not have been smaller."""
    FAILED = "failed"
    """The pass failed and the session is unchanged."""


_WORDS = {
    Status.NOT_NEEDED: "the session is below its limits",
    Status.NOT_RECOGNISED: "no error that a smaller session answers",
    Status.SPENT: "this turn has had the passes that it may have",
    Status.PENDING: "the pass is due or runs; it is not done yet",
    Status.CHANGED: "the session was compacted",
    Status.UNCHANGED: "nothing could be compacted",
    Status.FAILED: "the pass failed and the session is as it was",
}


@dataclass(frozen=True, slots=True)
class Compaction:
    """The result of a request for compaction, and the size of the session now.

    The same for `preflight`, `hygiene`, `report_error`, `compact` and `request_compaction`.
    Figures are counted, never predicted or rounded.

    Attributes:
        status: The state of the request; `reason` says it in words.
        trigger: The trigger of the pass; None where none was needed.
        size: The size of the session's next request and its limits now; `tokens`, `threshold`,
            `window`, `fits` and `over_threshold` are read from it.
        messages_before: Rows of the live view before the first pass.
        messages_after: Rows of the live view after the last pass, or now.
        tokens_before: Stored tokens of the live view before the first pass.
        tokens_after: Stored tokens of the live view after the last pass, or now.
        passes: Passes that finished while the caller waited.
        changed: Whether one of them changed the view.
        stuck: Whether the last one left 90 % or more.
        outcome: The outcome of the last one, as `afterturn sessions show` lists it.
        error_class: The error of the last one.
        suppressed_by: The guard that suppresses the pass.
        left_ms: Remaining time of a guard or a wait, 0 where unknown.
        job_id: The job that the caller waited for.
        tokens_asked: Size of the request before any pass, for `preflight`.
        kind: The kind of the recognised provider error, for `report_error`.
        max_output: Tokens of output to request, where the provider's error states them.
    """

    status: Status
    trigger: Trigger | None
    size: Size
    messages_before: int
    messages_after: int
    tokens_before: int
    tokens_after: int
    passes: int = 0
    changed: bool = False
    stuck: bool = False
    outcome: str | None = None
    error_class: str | None = None
    suppressed_by: Suppression | None = None
    left_ms: int = 0
    job_id: int | None = None
    tokens_asked: int | None = None
    kind: ApiErrorKind | None = None
    max_output: int | None = None

    @property
    def go(self) -> bool:
        """Whether the next request may be sent.

        True below the limits, and also above them while the request fits the window and there is no
        pass to wait for: a guard suppresses it, the job is postponed, or no pass makes the session
        smaller. False while a pass is due or runs (repeat the call and wait), and where the request
        does not fit the window, since the provider would refuse it.
        """
        return not self.size.over_limits or (self.status is not Status.PENDING and self.fits)

    @property
    def retry(self) -> bool:
        """Whether to repeat the request that the provider refused.

        True when the view has become smaller, or when less output is enough: load the context
        again, request at most `max_output` tokens, if given, and send.
        """
        return self.recognised and (self.smaller or self.max_output is not None)

    @property
    def recognised(self) -> bool:
        """Whether a smaller session or less output solves the provider's error."""
        return self.kind is not None

    @property
    def pending(self) -> bool:
        """Whether the pass is still to come."""
        return self.status in (Status.PENDING, Status.POSTPONED)

    @property
    def smaller(self) -> bool:
        """Whether the passes made progress: fewer rows, or more than 5 % fewer tokens."""
        return self.changed and (
            self.messages_after < self.messages_before
            or self.tokens_after < PROGRESS * self.tokens_before
        )

    @property
    def tokens(self) -> int:
        """The estimated tokens of the session's next request."""
        return self.size.tokens

    @property
    def threshold(self) -> int | None:
        """Tokens at which compaction starts; None where the window leaves no room."""
        return self.size.threshold

    @property
    def window(self) -> int:
        """Tokens that a request of the session may have from now on."""
        return self.size.window

    @property
    def over_threshold(self) -> bool:
        """Whether the session is at its threshold or above."""
        return self.size.over_threshold

    @property
    def fits(self) -> bool:
        """Whether the next request fits the window as it is."""
        return self.size.fits

    @property
    def reason(self) -> str:
        """The status in words, for a log."""
        seconds = f"{self.left_ms / 1000:,.0f} s"
        match self.status:
            case Status.SUPPRESSED if self.suppressed_by is not None:
                until = f" for {seconds}" if self.left_ms else ""
                return f"suppressed{until}: {self.suppressed_by.reason}"
            case Status.SUPPRESSED:
                return "suppressed by a guard"
            case Status.POSTPONED:
                after = f" after {self.error_class}" if self.error_class else ""
                return f"the pass waits for {seconds}{after}"
            case Status.FAILED | Status.UNCHANGED | Status.CHANGED:
                detail = self.error_class or self.outcome
                return _WORDS[self.status] + (f" ({detail})" if detail else "")
            case status:
                return _WORDS[status]

    def then(self, later: Compaction) -> Compaction:
        """Combine two results: figures of both, everything else of the later one."""
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


class CompressionStuck(AfterturnError, RuntimeError):
    """A session that cannot be made smaller: a pass left 90 % of it or more.

    The user needs a new session; `sentence` says so. The result of the pass is stored, see
    `compaction`, and turns are stored as before. `tokens` is the session's size, `threshold` where
    compaction starts (None where the window leaves no room).
    """

    def __init__(self, session_id: str, compaction: Compaction) -> None:
        self.session_id = session_id
        self.tokens = compaction.tokens
        self.threshold = compaction.threshold
        self.compaction = compaction
        self.sentence = late.stuck_sentence()
        left = f"{compaction.tokens_after:,} of {compaction.tokens_before:,} tokens are left"
        super().__init__(f"session {session_id!r}: {left}. {self.sentence}")
