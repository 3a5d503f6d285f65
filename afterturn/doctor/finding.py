"""Findings of the doctor's checks, and questions with a time limit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TypeVar

T = TypeVar("T")


class Status(StrEnum):
    """Severity of a finding."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was checked. `advice` says what to do, where something is to be done."""

    check: str
    status: Status
    detail: str
    advice: str = ""

    @classmethod
    def ok(cls, check: str, detail: str) -> Finding:
        return cls(check, Status.OK, detail)

    @classmethod
    def warn(cls, check: str, detail: str, advice: str) -> Finding:
        return cls(check, Status.WARN, detail, advice)

    @classmethod
    def fail(cls, check: str, detail: str, advice: str) -> Finding:
        return cls(check, Status.FAIL, detail, advice)


def within(seconds: float, question: Callable[[], T]) -> T:
    """Return what `question` returns, called in a thread and waited for at most so long.

    For questions that a driver may hang on in spite of its own time limits, such as resolving the
    name of a host. Raises `TimeoutError`, and what the question raises.
    """
    answers: SimpleQueue[tuple[T | None, Exception | None]] = SimpleQueue()

    def ask() -> None:
        try:
            answers.put((question(), None))
        except Exception as error:  # noqa: BLE001 - raised again by the caller
            answers.put((None, error))

    Thread(target=ask, daemon=True).start()
    try:
        answer, error = answers.get(timeout=seconds)
    except Empty:
        raise TimeoutError(f"no answer within {seconds:g} s") from None
    if error is not None:
        raise error
    return answer  # type: ignore[return-value] # None only where the question's own answer is
