"""The state of a running job and of one pass, and the result of a pass."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from storage.answers import StoredAnswer
from storage.conversations.sessions import SessionRecord
from storage.engine import Database
from storage.jobs import Claim, DueJob
from storage.outcomes import Outcome
from storage.signals import Signal
from workers.runtime.context import WorkerContext
from workers.settings.compression import CompressionSettings
from workers.summariser.contract import ErrorClass, SummariserError


@dataclass(frozen=True, slots=True)
class PassResult:
    """The end of a pass in figures, names and fixed texts, never text of a conversation.

    After a change, `rows` is how many rows left the live view or were changed in it, and the tokens
    are those of the whole view. `reason` says why nothing was changed. After a failure,
    `error_class`, `model` and `detail` say what happened, and the job is retried in `delay_ms`.
    After a rejected rewrite, the next one is due when the rolling summary has `mark` tokens.
    """

    outcome: Outcome
    rows: int = 0
    tokens_before: int = 0
    tokens_after: int = 0
    reason: str = ""
    error_class: ErrorClass | None = None
    detail: str = ""
    model: str = ""
    delay_ms: int = 0
    mark: int = 0

    @classmethod
    def of_change(
        cls, outcome: Outcome, before: SessionRecord, after: SessionRecord, rows: int = 0
    ) -> PassResult:
        """Build the result of a pass that changed the view."""
        return cls(outcome, rows, before.live_tokens, after.live_tokens)

    @classmethod
    def of_failure(cls, error: SummariserError, model: str, delay_ms: int = 0) -> PassResult:
        """Build the result of a pass that got no summary."""
        return cls(
            Outcome.FAILED,
            error_class=error.error_class,
            detail=error.detail,
            model=model,
            delay_ms=delay_ms,
        )


@dataclass(slots=True)
class Cost:
    """The cost of a pass so far: requests sent, tokens, milliseconds of model time. `asked_chars`
    are the characters of the passages in the last request."""

    requests: int = 0
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    model_ms: int = 0
    asked_chars: int = 0

    def count(self, answer: StoredAnswer) -> None:
        """Add the cost of an answer, even if an earlier run of the job paid for it."""
        self.prompt_tokens = _sum(self.prompt_tokens, answer.prompt_tokens)
        self.completion_tokens = _sum(self.completion_tokens, answer.completion_tokens)
        self.model_ms += answer.model_ms


@dataclass(slots=True)
class JobRun:
    """A claimed job while it is worked on.

    `must_stop` returns True when the job has to be abandoned at once, even during a request.
    `results` and `signals` grow with each pass. `due` is None until a commit has ended the job;
    then it holds the jobs of its session that are due.
    """

    context: WorkerContext
    claim: Claim
    must_stop: Callable[[], bool]
    results: list[PassResult] = field(default_factory=list)
    signals: list[Signal] = field(default_factory=list)
    due: tuple[DueJob, ...] | None = None


@dataclass(frozen=True, slots=True)
class PassContext:
    """One pass of a job, with the settings in force when it began. `started` is on the monotonic
    clock; `cost` grows during the pass."""

    job: JobRun
    settings: CompressionSettings
    cost: Cost = field(default_factory=Cost)
    started: float = field(default_factory=time.monotonic)

    @classmethod
    def begin(cls, job: JobRun) -> PassContext:
        """Begin a pass."""
        return cls(job, job.context.settings.current().compression)

    def fresh(self) -> PassContext:
        """Reset cost and clock once a failed attempt is recorded, so that its cost counts once."""
        return replace(self, cost=Cost(), started=time.monotonic())

    @property
    def context(self) -> WorkerContext:
        return self.job.context

    @property
    def claim(self) -> Claim:
        return self.job.claim

    @property
    def database(self) -> Database:
        return self.job.context.database

    @property
    def key(self) -> int:
        """The key of the job's session."""
        return self.job.claim.session_key


def _sum(so_far: int | None, more: int | None) -> int | None:
    return so_far if more is None else (so_far or 0) + more
