"""A summariser that takes no time, so that what is left is ours."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from workers.headings import Section
from workers.summarising import Reply, SummaryRequest

_KNOWN = """
- The customers of this desk hold bookings for two passengers each, one of them a gold member.
- Payment went through with a certificate and a credit card; fares are free to change.
- Each request named one booking by its number, and the desk looked it up before it changed it.
- Refunds are possible until a day before departure; nobody has asked for one so far.
- Confirmation went out by mail. No booking is left half changed, and none was cancelled."""


class InstantSummariser:
    """Answers at once, always with the same number of characters and never twice the same text.

    Safe to call from many threads.
    """

    def __init__(self, *, input_chars: int = 160_000, first: int = 1) -> None:
        self._input_chars = input_chars
        self._numbers = count(first)

    @property
    def model(self) -> str:
        return "instant"

    @property
    def fingerprint(self) -> int:
        return 1

    def room(self, summary_tokens: int) -> int:
        return self._input_chars

    def summarise(self, request: SummaryRequest, stop: Callable[[], bool]) -> Reply:
        state = f"State of the desk, version {next(self._numbers):09d}:{_KNOWN}"
        if request.task.in_sections:
            headings = "\n\n".join(f"## {section}\nas before" for section in Section)
            state = f"{headings}\n{state}"
        return Reply(state, self.model)

    def close(self) -> None:
        """Nothing is open."""
