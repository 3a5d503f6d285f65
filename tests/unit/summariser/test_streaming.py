"""Which of the three limits of a call comes first."""

from __future__ import annotations

import pytest

from workers.summariser.contract import ErrorClass
from workers.summariser.streaming import USAGE_SECONDS, Deadline, Timeouts

LIMITS = Timeouts(first_byte=300, idle=120, total=600)


def test_the_first_text_has_its_own_limit() -> None:
    deadline = Deadline(LIMITS, 1_000)
    assert (deadline.until, deadline.error_class) == (1_300, ErrorClass.FIRST_BYTE_TIMEOUT)


def test_after_the_first_text_each_silence_is_limited() -> None:
    deadline = Deadline(LIMITS, 1_000)
    deadline.progress(1_290)
    assert (deadline.until, deadline.error_class) == (1_410, ErrorClass.IDLE_TIMEOUT)


def test_no_progress_prolongs_the_whole() -> None:
    deadline = Deadline(LIMITS, 1_000)
    deadline.progress(1_599)
    assert (deadline.until, deadline.error_class) == (1_600, ErrorClass.TOTAL_TIMEOUT)


def test_a_complete_answer_is_not_waited_for_much_longer() -> None:
    deadline = Deadline(LIMITS, 1_000)
    deadline.progress(1_010)
    deadline.finish(1_010)
    assert deadline.until == pytest.approx(1_010 + USAGE_SECONDS)
