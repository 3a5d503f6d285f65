"""What a process remembers of the jobs that it has closed."""

from __future__ import annotations

from workers.runtime.scheduling import REMEMBERED, REMEMBERED_SECONDS, Finished


def test_what_was_noted_is_known_and_nothing_else() -> None:
    known = Finished()
    known.note([3, 5])
    assert [number for number in range(7) if number in known] == [3, 5]


def test_the_oldest_are_forgotten_where_there_are_many() -> None:
    known = Finished()
    known.note(range(REMEMBERED))
    # Noted again, so that it is one of the newest.
    known.note([0])
    known.note([REMEMBERED])
    assert 0 in known
    assert 1 not in known
    assert 2 in known
    assert REMEMBERED in known


def test_nothing_is_remembered_for_long() -> None:
    now = 100.0
    known = Finished(clock=lambda: now)
    known.note([1])
    now += REMEMBERED_SECONDS - 1
    assert 1 in known
    now += 1
    assert 1 not in known
