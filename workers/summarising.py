"""The contract between a compaction job and whatever writes its summaries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import Protocol


class Task(StrEnum):
    """What is asked of the summariser."""

    ABSORB = "absorb"
    """Fold an exchange into the rolling summary (ENGINE.md §7)."""
    DEFRAG = "defrag"
    """Rewrite the rolling summary alone, shorter (ENGINE.md §7)."""


@dataclass(frozen=True, slots=True)
class Passage:
    """One message as the summariser sees it: redacted and cut (ENGINE.md §6.3).

    `label` says who speaks: `user`, `assistant`, `tool NAME`, `runtime`. `calls` are the tool
    calls made in it as (name, arguments) with the arguments' JSON text.
    """

    label: str
    text: str
    calls: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class SummaryRequest:
    """Everything that one summary is made from. All text in it is redacted already.

    `previous` is the rolling summary so far ("" at first). `question` is the user's request that
    the first passage answers, as context only. `target_tokens` is the size that the prompt asks
    for; `replaced_tokens` is what the answer takes the place of, so it must be smaller.
    """

    task: Task
    previous: str
    question: str
    passages: tuple[Passage, ...]
    target_tokens: int
    replaced_tokens: int
    today: date


@dataclass(frozen=True, slots=True)
class Reply:
    """What a summariser said, unchecked. Token counts are None where it did not tell."""

    text: str
    model: str
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    seconds: float = 0.0


class ErrorClass(StrEnum):
    """Why an attempt to get a summary failed.

    The first group is about the endpoint: nothing is held against the exchange. The second is
    about this answer: three in a row and micro-compaction skips the exchange (ENGINE.md §7).
    """

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
    """Invented turns or orders to conceal (faults F239)."""
    SECRETS = "secrets"
    ERROR_PAGE = "error_page"

    @property
    def blames_endpoint(self) -> bool:
        """True where waiting helps and the exchange is not at fault."""
        return self in _ENDPOINT


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


class SummariserError(Exception):
    """No usable summary came back. Nothing of the session may change because of it.

    `error_class` says why, `detail` in a few words without any text of the conversation,
    `retry_after` the seconds that the endpoint asked to wait, if it did.
    """

    def __init__(
        self, error_class: ErrorClass, detail: str = "", *, retry_after: float | None = None
    ) -> None:
        super().__init__(f"{error_class.value}: {detail}" if detail else error_class.value)
        self.error_class = error_class
        self.detail = detail
        self.retry_after = retry_after


class Stopped(Exception):
    """The wait for the summariser was given up because the worker stops or lost its lease."""


class Summariser(Protocol):
    """Writes summaries. Safe to call from many threads at once; keeps nothing between calls."""

    @property
    def model(self) -> str:
        """Name for records, `local` for the built-in one."""

    @property
    def input_chars(self) -> int:
        """How many characters of passages one request may hold (ENGINE.md §6.3: 160,000, less
        for a small window)."""

    def summarise(self, request: SummaryRequest, stop: Callable[[], bool]) -> Reply:
        """Answer `request`; `stop` is polled while waiting.

        Raises `SummariserError` when no text came back and `Stopped` when `stop()` turned true.
        """

    def close(self) -> None: ...
