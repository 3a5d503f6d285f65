"""Threads that take turns, as long as none waits for long."""

from __future__ import annotations

from threading import Event, Lock, Thread

import pytest

from storage.turnstile import Turnstile

LONG = 30.0


def test_one_thread_passes_at_a_time() -> None:
    turnstile, busy = Turnstile(patience=LONG), Lock()
    met: list[bool] = []

    def pass_often() -> None:
        for _ in range(200):
            with turnstile.passed():
                met.append(not busy.acquire(blocking=False))
                if not met[-1]:
                    busy.release()

    threads = [Thread(target=pass_often) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=LONG)
    assert met == [False] * 800


def test_who_has_waited_long_enough_passes_too() -> None:
    turnstile, inside, passed = Turnstile(patience=0.01), Event(), Event()

    def stay() -> None:
        with turnstile.passed():
            inside.set()
            assert passed.wait(LONG)

    slow = Thread(target=stay)
    slow.start()
    assert inside.wait(LONG)
    with turnstile.passed():
        passed.set()
    slow.join(timeout=LONG)
    # It did not let go of what the other one holds.
    with turnstile.passed():
        pass


def test_a_turn_may_begin_within_another_one_and_ends_with_an_error() -> None:
    turnstile = Turnstile(patience=LONG)
    with pytest.raises(ZeroDivisionError), turnstile.passed(), turnstile.passed():
        raise ZeroDivisionError
    free = Event()

    def pass_once() -> None:
        with turnstile.passed():
            free.set()

    other = Thread(target=pass_once)
    other.start()
    assert free.wait(LONG)
    other.join(timeout=LONG)
