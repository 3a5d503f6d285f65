"""Waiting for what others bring about: bounded, and ever less often."""

from __future__ import annotations

import pytest

from producers.waiting import FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, Deadline, poll


class Clock:
    """A clock that only moves when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.pauses: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds

    def deadline(self, seconds: float) -> Deadline:
        return Deadline(seconds, clock=lambda: self.now, sleep=self.sleep)


def test_without_time_there_is_one_peek_and_no_pause() -> None:
    clock = Clock()
    peeks = iter(range(100))
    deadline = clock.deadline(0)
    assert poll(lambda: next(peeks), lambda _: False, deadline) == 0
    assert clock.pauses == []
    assert not deadline.granted


def test_what_is_over_is_not_looked_at_again() -> None:
    clock = Clock()
    assert poll(lambda: "done", lambda seen: seen == "done", clock.deadline(5)) == "done"
    assert clock.pauses == []


def test_pauses_grow_up_to_a_longest_one() -> None:
    clock = Clock()
    seen = iter(range(100))
    assert poll(lambda: next(seen), lambda number: number == 8, clock.deadline(60)) == 8
    assert clock.pauses[0] == FIRST_PAUSE_SECONDS
    assert clock.pauses == sorted(clock.pauses)
    assert clock.pauses[-1] == LONGEST_PAUSE_SECONDS


@pytest.mark.parametrize("seconds", [0.001, 0.3, 2.0])
def test_it_ends_with_the_deadline_and_a_last_peek(seconds: float) -> None:
    clock = Clock()
    last = poll(lambda: clock.now, lambda _: False, clock.deadline(seconds))
    assert clock.now == pytest.approx(1000 + seconds)
    assert last == clock.now


def test_a_deadline_is_shared_by_what_is_waited_for_one_after_the_other() -> None:
    clock = Clock()
    deadline = clock.deadline(1)
    clock.now += 0.75
    poll(lambda: None, lambda _: False, deadline)
    assert clock.now == pytest.approx(1001)
    assert deadline.left == 0
    assert deadline.granted
