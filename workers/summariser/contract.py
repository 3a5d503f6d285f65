"""The contract between a compaction job and its summariser."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import Protocol, runtime_checkable

from storage.errors import AfterturnError


class Task(StrEnum):
    """The task of a summariser."""

    ABSORB = "absorb"
    """Absorb an exchange into the rolling summary."""
    DEFRAG = "defrag"
    """Rewrite the rolling summary alone, shorter."""
    BATCH = "batch"
    """Summarise a middle, or a part of one, in sections."""
    MERGE = "merge"
    """Join the summaries of the parts of one middle, which are the passages."""

    @property
    def in_sections(self) -> bool:
        """Whether the answer is a structured summary."""
        return self in (Task.BATCH, Task.MERGE)


@dataclass(frozen=True, slots=True)
class Passage:
    """A message as the summariser sees it: redacted and cut.

    `label` says who speaks: `user`, `assistant`, `tool NAME`, `runtime`. `calls` are the tool
    calls made in it as (name, arguments) with the arguments' JSON text.
    """

    label: str
    text: str
    calls: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class SummaryRequest:
    """The input of one summary. All text in it is redacted.

    `previous` is the summary so far ("" at first), to be updated. `question` is the user's request
    that the first passage answers, as context only. `target_tokens` is the size that the prompt
    requests; `replaced_tokens` is the size of what the answer replaces, so it must be smaller.
    `focus` is a topic that a person wants most of the room for. `idle_seconds` and
    `total_seconds` limit the answer where the usual limits do not apply.
    """

    task: Task
    previous: str
    question: str
    passages: tuple[Passage, ...]
    target_tokens: int
    replaced_tokens: int
    today: date
    focus: str = ""
    idle_seconds: float | None = None
    total_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """An unchecked answer of a summariser.

    Token counts are None where it did not report them; `requests` counts those sent for it, also to
    models that failed before.
    """

    text: str
    model: str
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    seconds: float = 0.0
    requests: int = 1


class ErrorClass(StrEnum):
    """The reason why an attempt to get a summary failed.

    In the first group no request was sent. The second concerns the endpoint and does not count
    against the exchange. The third concerns this answer: after three in a row micro-compaction
    skips the exchange.
    """

    BREAKER_OPEN = "breaker_open"
    """Every model is down and gets no requests for now."""
    LIMIT_REACHED = "limit_reached"
    """The requests or tokens of this minute are used up, or the probe of a model that has not
    answered yet, or failed last, still runs."""

    CONNECTION = "connection"
    RATE_LIMITED = "rate_limited"
    SERVER_ERROR = "server_error"
    AUTH = "auth"
    NOT_FOUND = "not_found"
    BAD_REQUEST = "bad_request"

    FIRST_BYTE_TIMEOUT = "first_byte_timeout"
    IDLE_TIMEOUT = "idle_timeout"
    TOTAL_TIMEOUT = "total_timeout"
    INTERRUPTED = "interrupted"
    """The stream ended without a finish reason."""
    CONTEXT_OVERFLOW = "context_overflow"
    EMPTY = "empty"
    CUT_BY_LENGTH = "cut_by_length"
    TOOL_CALL = "tool_call"
    REFUSAL = "refusal"
    PLAN = "plan"
    ECHO = "echo"
    TOO_LARGE = "too_large"
    WRONG_SCRIPT = "wrong_script"
    ROLE_PLAY = "role_play"
    """Invented turns, orders to conceal, or orders in a tool's words."""
    SECRETS = "secrets"
    ERROR_PAGE = "error_page"
    MISSING_SECTIONS = "missing_sections"

    @property
    def blames_endpoint(self) -> bool:
        """Whether waiting helps and the exchange is not at fault."""
        return self in _ENDPOINT or self.not_asked

    @property
    def not_asked(self) -> bool:
        """Whether no request was sent, so that no attempt was used."""
        return self in (ErrorClass.BREAKER_OPEN, ErrorClass.LIMIT_REACHED)

    @property
    def permanent(self) -> bool:
        """Whether repeating the request cannot help: HTTP 400, 401, 403 and 404."""
        return self in _PERMANENT


_ENDPOINT = frozenset(
    {
        ErrorClass.CONNECTION,
        ErrorClass.RATE_LIMITED,
        ErrorClass.SERVER_ERROR,
        ErrorClass.AUTH,
        ErrorClass.NOT_FOUND,
        ErrorClass.BAD_REQUEST,
    }
)

_PERMANENT = frozenset({ErrorClass.AUTH, ErrorClass.NOT_FOUND, ErrorClass.BAD_REQUEST})


class SummariserError(AfterturnError):
    """The failure to get a usable summary. The session must not change because of it.

    `error_class` says why, `detail` adds a few words without any text of the conversation,
    `retry_after` are the seconds that the endpoint requested to wait, if any; `requests` counts
    those sent to all models of a chain together.
    """

    repeatable = True

    def __init__(
        self,
        error_class: ErrorClass,
        detail: str = "",
        *,
        retry_after: float | None = None,
        requests: int = 1,
    ) -> None:
        super().__init__(f"{error_class.value}: {detail}" if detail else error_class.value)
        self.error_class = error_class
        self.detail = detail
        self.retry_after = retry_after
        self.requests = 0 if error_class.not_asked else requests


class Stopped(Exception):
    """The wait for the summariser ended because the worker stops or lost its lease."""


class Summariser(Protocol):
    """A writer of summaries. Stateless, and safe to call from many threads at once."""

    @property
    def model(self) -> str:
        """The name for records, `local` for the built-in one."""

    @property
    def fingerprint(self) -> int:
        """A number that stays the same while the same models are called at the same URLs.

        A change of summariser clears cooldowns.
        """

    def room(self, summary_tokens: int) -> int:
        """Return how many characters of passages one request may hold (160,000, less for a small
        window) beside summaries of `summary_tokens`: the previous one and the answer."""

    def summarise(self, request: SummaryRequest, stop: Callable[[], bool]) -> Reply:
        """Answer `request`; `stop` is polled while waiting.

        Raises `SummariserError` when there is no text and `Stopped` when `stop()` returned true.
        """

    def close(self) -> None: ...


@runtime_checkable
class Gated(Protocol):
    """A summariser shared by all workers that may be blocked for a while."""

    def check_breaker(self) -> SummariserError | None:
        """Return the error that a request would raise now, None where one may be sent."""
