"""Threads that take turns, as long as none waits for long."""

from __future__ import annotations

from collections.abc import Callable
from threading import Barrier, Event, Lock, Thread

import pytest

from storage.concurrency import STATEMENT_SECONDS, ConcurrencyLimit, width_for

LONG = 30.0
NEVER = 10_000.0
"""Longer than any test may take: who waits so long fails it."""


def run(*calls: Callable[[], None]) -> None:
    threads = [Thread(target=call, daemon=True) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=LONG)
        assert not thread.is_alive()


@pytest.mark.parametrize("width", [1, 3])
def test_no_more_threads_than_its_width_pass_at_a_time(width: int) -> None:
    concurrency_limit, counting = ConcurrencyLimit(width, timeout=NEVER), Lock()
    inside = 0
    met: list[int] = []

    def pass_often() -> None:
        nonlocal inside
        for _ in range(200):
            with concurrency_limit.passed():
                with counting:
                    inside += 1
                    met.append(inside)
                with counting:
                    inside -= 1

    run(*[pass_often] * 6)
    assert len(met) == 1200
    assert max(met) <= width


def test_as_many_as_its_width_pass_together() -> None:
    concurrency_limit, together = ConcurrencyLimit(3, timeout=NEVER), Barrier(3)

    def meet() -> None:
        with concurrency_limit.passed():
            together.wait(LONG)

    run(meet, meet, meet)


def test_one_that_is_stuck_delays_the_others_once() -> None:
    concurrency_limit, inside, passed = ConcurrencyLimit(timeout=0.05), Event(), Event()
    stuck = Thread(target=lambda: _stay(concurrency_limit, inside, passed), daemon=True)
    stuck.start()
    assert inside.wait(LONG)
    with concurrency_limit.passed():
        # Its time is up; from now on no thread needs to wait.
        concurrency_limit._timeout = NEVER
    run(*[lambda: _pass(concurrency_limit)] * 3)
    passed.set()
    stuck.join(timeout=LONG)
    # And it takes nothing along that is another one's by now.
    again, other = Event(), Event()
    busy = Thread(target=lambda: _stay(concurrency_limit, again, other), daemon=True)
    busy.start()
    assert again.wait(LONG)
    assert not concurrency_limit._has_room()
    other.set()
    busy.join(timeout=LONG)
    assert concurrency_limit._has_room()


def _pass(concurrency_limit: ConcurrencyLimit) -> None:
    with concurrency_limit.passed():
        pass


def _stay(concurrency_limit: ConcurrencyLimit, inside: Event, until: Event) -> None:
    with concurrency_limit.passed():
        inside.set()
        assert until.wait(LONG)


def test_a_turn_may_begin_within_another_one_and_ends_with_an_error() -> None:
    concurrency_limit = ConcurrencyLimit(timeout=NEVER)

    def fail() -> None:
        with (
            pytest.raises(ZeroDivisionError),
            concurrency_limit.passed(),
            concurrency_limit.passed(),
        ):
            raise ZeroDivisionError

    run(fail)
    assert concurrency_limit._has_room()


@pytest.mark.parametrize(("statements", "width"), [(0.0, 1), (0.9, 1), (1.1, 2), (10.5, 11)])
def test_the_longer_the_way_the_more_pass(statements: float, width: int) -> None:
    assert width_for(statements * STATEMENT_SECONDS) == width
