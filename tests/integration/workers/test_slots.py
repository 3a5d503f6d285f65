"""Each tick of a schedule is taken once, however many processes ask and however often."""

from __future__ import annotations

from storage import scheduling
from storage.engine import Database
from tests.support.observing.at_once import at_once, succeeded
from tests.support.sessions.gateways import rows_of
from tests.support.sessions.stored_session import later

HOUR = 3_600_000


def take(database: Database, schedule: str = "s", every_ms: int = HOUR) -> bool:
    with database.write() as connection:
        return scheduling.take(connection, database, schedule, every_ms=every_ms)


def test_a_tick_is_taken_once_and_the_next_one_again(database: Database) -> None:
    assert [take(database) for _ in range(3)] == [True, False, False]
    assert [take(later(database, HOUR)) for _ in range(2)] == [True, False]
    assert [take(later(database, hours * HOUR)) for hours in range(2, 6)] == [True] * 4


def test_schedules_have_ticks_of_their_own(database: Database) -> None:
    assert take(database, "one")
    assert take(database, "other")
    assert not take(database, "one")


def test_a_tick_lasts_as_long_as_the_schedule_says(database: Database) -> None:
    """Looked at every half minute for an hour, a schedule of ten minutes ticks six or seven
    times, at the turn of each ten minutes of the clock."""
    taken = [
        take(later(database, seconds * 1000), every_ms=600_000) for seconds in range(0, 3600, 30)
    ]
    assert sum(taken) in (6, 7)
    slots_taken = [slot for (slot,) in rows_of(database, "SELECT slot FROM schedule_slots")]
    assert sorted(slots_taken) == list(range(min(slots_taken), min(slots_taken) + sum(taken)))
    times = rows_of(database, "SELECT slot, taken_at FROM schedule_slots")
    assert all(at // 600_000 == slot for slot, at in times)


def test_of_many_beats_at_once_one_gets_it(database: Database) -> None:
    taken = succeeded(at_once([lambda: take(database)] * 8))
    assert sorted(taken) == [False] * 7 + [True]


def test_ticks_of_a_clock_that_is_set_back_do_not_hold_up_those_that_come(
    database: Database,
) -> None:
    for hours in range(4):
        assert take(later(database, hours * HOUR))
    assert take(database, "other")
    # Now it is an hour after the beginning again. That tick is over; the next ones are not.
    at = [take(later(database, hours * HOUR)) for hours in (1, 1, 2, 2, 3)]
    assert at == [False, False, True, False, True]
    assert not take(database, "other")


def test_after_a_time_without_beats_there_is_one_tick_and_no_storm(database: Database) -> None:
    assert take(database)
    assert [take(later(database, 100 * HOUR)) for _ in range(200)] == [True] + [False] * 199
