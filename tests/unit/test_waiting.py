"""Waiting for what others bring about: bounded, and ever less often."""

from __future__ import annotations

import pytest

from producers.waiting import FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, Patience, wait_for


class Clock:
    """A clock that only moves when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.pauses: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds

    def patience(self, seconds: float) -> Patience:
        return Patience(seconds, clock=lambda: self.now, sleep=self.sleep)


def test_without_patience_there_is_one_look_and_no_pause() -> None:
    clock = Clock()
    looks = iter(range(100))
    patience = clock.patience(0)
    assert wait_for(lambda: next(looks), lambda _: False, patience) == 0
    assert clock.pauses == []
    assert not patience.granted


def test_what_is_over_is_not_looked_at_again() -> None:
    clock = Clock()
    assert wait_for(lambda: "done", lambda seen: seen == "done", clock.patience(5)) == "done"
    assert clock.pauses == []


def test_pauses_grow_up_to_a_longest_one() -> None:
    clock = Clock()
    seen = iter(range(100))
    assert wait_for(lambda: next(seen), lambda number: number == 8, clock.patience(60)) == 8
    assert clock.pauses[0] == FIRST_PAUSE_SECONDS
    assert clock.pauses == sorted(clock.pauses)
    assert clock.pauses[-1] == LONGEST_PAUSE_SECONDS


@pytest.mark.parametrize("seconds", [0.001, 0.3, 2.0])
def test_it_ends_with_the_patience_and_a_last_look(seconds: float) -> None:
    clock = Clock()
    last = wait_for(lambda: clock.now, lambda _: False, clock.patience(seconds))
    assert clock.now == pytest.approx(1000 + seconds)
    assert last == clock.now


def test_patience_is_shared_by_what_is_waited_for_one_after_the_other() -> None:
    clock = Clock()
    patience = clock.patience(1)
    clock.now += 0.75
    wait_for(lambda: None, lambda _: False, patience)
    assert clock.now == pytest.approx(1001)
    assert patience.left == 0
    assert patience.granted
