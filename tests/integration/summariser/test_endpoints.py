"""What all workers know of an endpoint, on both databases: one truth, however many ask at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pytest
from sqlalchemy import text

from storage import endpoints
from storage.endpoints import MINUTE_MS, EndpointRecord, EndpointState
from storage.engine import Database, open_database
from storage.errors import StorageError
from tests.support.observing.at_once import at_once, succeeded
from tests.support.sessions.gateways import url_of
from tests.support.sessions.stored_session import later
from workers.summariser.breaker import DOUBT_MS, FIRST_OPEN_MS, RECHECK_CLOSED_MS, RECHECK_MS
from workers.summariser.contract import ErrorClass, SummariserError
from workers.summariser.gate import Blocked, Permit, SharedGate
from workers.summariser.rate_limits import Limits

NAME = "small at models.example"
OTHER = "large at models.example"
THREADS = 12
CEILING = 600.0
NO_LIMITS = Limits()
DOWN = SummariserError(ErrorClass.SERVER_ERROR)


@pytest.fixture
def hosts(database: Database) -> Iterator[list[SharedGate]]:
    """Gates of several processes: each has connections of its own."""
    opened = [open_database(url_of(database)) for _ in range(3)]
    yield [SharedGate(one) for one in opened]
    for one in opened:
        one.close()


def admit(
    gate: SharedGate,
    *,
    name: str = NAME,
    limits: Limits = NO_LIMITS,
    tokens: int = 100,
    seconds: float = CEILING,
) -> Permit | Blocked:
    return gate.admit(name, limits, tokens=tokens, longest_seconds=seconds)


def permitted(gate: SharedGate, *, name: str = NAME, seconds: float = CEILING) -> Permit:
    permit = admit(gate, name=name, seconds=seconds)
    assert isinstance(permit, Permit)
    return permit


def establish(database: Database, name: str = NAME) -> None:
    """Let the endpoint answer once, so that many may ask it at a time."""
    gate = SharedGate(database)
    gate.answered(permitted(gate, name=name), used_tokens=None)


def bring_down(database: Database, name: str = NAME) -> None:
    """Let three requests fail, so that the breaker opens."""
    gate = SharedGate(database)
    for _ in range(3):
        gate.failed(permitted(gate, name=name), DOWN)


def stored(database: Database, name: str = NAME) -> EndpointRecord:
    with database.write() as connection:
        return endpoints.lock(connection, database, name)


def state(database: Database, name: str = NAME) -> EndpointState:
    with database.read() as connection:
        found = endpoints.states(connection, database)
    return next(one for one in found if one.name == name)


def in_the_middle_of_a_minute(database: Database) -> Database:
    """Return the database at a time when no minute ends soon."""
    now = stored(database).now
    return later(database, MINUTE_MS // 2 - now % MINUTE_MS)


def in_a_minute_of_its_own(database: Database) -> Database:
    """Return the database in the middle of a minute, one after that in which the endpoint
    answered."""
    at = in_the_middle_of_a_minute(database)
    establish(at)
    return later(at, MINUTE_MS)


def test_a_row_is_made_at_first_and_comes_back_as_it_was_written(database: Database) -> None:
    first = stored(database)
    assert first == EndpointRecord(NAME, first.now)
    written = replace(
        first,
        failures=4,
        open_ms=60_000,
        open_until=first.now + 5,
        probe_until=first.now + 6,
        error_class="auth",
        answered_at=first.now - 9,
        minute=7,
        requests=8,
        tokens=9,
    )
    with database.write() as connection:
        endpoints.write(connection, written)
    again = stored(database)
    assert replace(again, now=first.now) == written
    assert 0 <= again.now - first.now < 60_000


def test_of_many_that_ask_a_new_endpoint_at_once_exactly_one_does_until_it_has_answered(
    database: Database,
) -> None:
    at = in_the_middle_of_a_minute(database)
    gate = SharedGate(at)
    answers = succeeded(at_once([partial(admit, gate, name=OTHER)] * THREADS))
    (first,) = [answer for answer in answers if isinstance(answer, Permit)]
    assert first.probe is not None
    blocked = [answer for answer in answers if isinstance(answer, Blocked)]
    assert blocked == [Blocked(ErrorClass.LIMIT_REACHED, RECHECK_CLOSED_MS)] * (THREADS - 1)
    assert stored(at, OTHER).used == (1, 100)
    with database.read() as connection:
        names = connection.execute(text("SELECT name FROM endpoints ORDER BY name")).scalars().all()
    assert names == [OTHER, NAME]
    gate.answered(first, used_tokens=None)
    permits = succeeded(at_once([partial(permitted, gate, name=OTHER)] * THREADS))
    assert all(permit.probe is None for permit in permits)
    assert stored(at, OTHER).used == (1 + THREADS, 100 * (1 + THREADS))


def test_an_endpoint_that_begins_to_fail_is_asked_by_one_at_a_time_on_every_host(
    database: Database, hosts: list[SharedGate]
) -> None:
    establish(database)
    asked = [admit(hosts[n % 3]) for n in range(THREADS)]
    early = [answer for answer in asked if isinstance(answer, Permit)]
    assert len(early) == THREADS
    hosts[0].failed(early[0], DOWN)
    answers = succeeded(at_once([partial(admit, hosts[n % 3]) for n in range(THREADS)]))
    (probe,) = [answer for answer in answers if isinstance(answer, Permit)]
    blocked = [answer for answer in answers if isinstance(answer, Blocked)]
    assert blocked == [Blocked(ErrorClass.LIMIT_REACHED, RECHECK_CLOSED_MS)] * (THREADS - 1)
    # An earlier request is answered after all, so nobody has to wait for the probe.
    hosts[1].answered(early[1], used_tokens=None)
    assert permitted(hosts[2]).probe is None
    # Or the probe fails, and others with it.
    for failing in (probe, *early[2:4]):
        hosts[2].failed(failing, DOWN)
    assert state(database).is_open


def test_three_failures_open_the_breaker_for_every_host(
    database: Database, hosts: list[SharedGate]
) -> None:
    establish(database, OTHER)
    bring_down(database)
    for gate in hosts:
        blocked = admit(gate)
        assert isinstance(blocked, Blocked)
        assert blocked.error_class is ErrorClass.BREAKER_OPEN
        assert FIRST_OPEN_MS - 10_000 < blocked.wait_ms <= FIRST_OPEN_MS
        assert isinstance(admit(gate, name=OTHER), Permit)


@pytest.mark.parametrize("wave", range(3))
def test_of_many_that_ask_when_the_pause_is_over_exactly_one_probes(
    database: Database, wave: int
) -> None:
    bring_down(database)
    opened = [open_database(url_of(database), offset_ms=FIRST_OPEN_MS + 1) for _ in range(3)]
    gates = [SharedGate(one) for one in opened]
    answers = succeeded(at_once([partial(admit, gates[n % 3]) for n in range(THREADS)]))
    probes = [answer for answer in answers if isinstance(answer, Permit)]
    assert len(probes) == 1
    assert probes[0].probe is not None
    for answer in answers:
        if isinstance(answer, Blocked):
            assert answer == Blocked(ErrorClass.BREAKER_OPEN, RECHECK_MS)
    # It ends well, and everybody may ask again.
    gates[wave].answered(probes[0], used_tokens=None)
    assert all(
        isinstance(answer, Permit)
        for answer in succeeded(at_once([partial(admit, gates[n % 3]) for n in range(THREADS)]))
    )
    for one in opened:
        one.close()


def test_each_probe_that_fails_is_followed_by_one_more_after_twice_the_pause(
    database: Database,
) -> None:
    bring_down(database)
    passed = 0
    for pause in (30_000, 60_000, 120_000, 240_000, 480_000, 600_000, 600_000):
        early, due = later(database, passed + pause - 20_000), later(database, passed + pause + 1)
        assert isinstance(admit(SharedGate(early)), Blocked)
        gate = SharedGate(due)
        probe = permitted(gate)
        assert probe.probe is not None
        assert isinstance(admit(gate), Blocked)
        gate.failed(probe, DOWN)
        passed += pause + 1_000


def test_failures_counted_at_once_by_many_are_all_counted(
    database: Database, hosts: list[SharedGate]
) -> None:
    establish(database)
    permits = [permitted(hosts[n % 3]) for n in range(THREADS)]
    at_once([partial(hosts[n % 3].failed, permit, DOWN) for n, permit in enumerate(permits)])
    # Those that were still under way when it opened say nothing any more.
    assert stored(database).failures == 3
    assert state(database).is_open


def test_a_probe_whose_process_died_frees_its_place_by_its_ceiling(database: Database) -> None:
    bring_down(database)
    probe = permitted(SharedGate(later(database, FIRST_OPEN_MS + 1)), seconds=60.0)
    assert isinstance(admit(SharedGate(later(database, FIRST_OPEN_MS + 2))), Blocked)
    gate = SharedGate(later(database, FIRST_OPEN_MS + 61_000))
    second = permitted(gate)
    assert second.probe not in (None, probe.probe)
    # The first one was not dead after all; what it says comes too late.
    gate.answered(probe, used_tokens=None)
    assert state(database).is_open
    gate.answered(second, used_tokens=None)
    assert not state(database).is_open


@pytest.mark.parametrize("known", [False, True], ids=["new", "failing"])
def test_a_process_that_died_while_it_asked_an_endpoint_in_doubt_frees_the_place_in_half_a_minute(
    database: Database, known: bool
) -> None:
    if known:
        establish(database)
        SharedGate(database).failed(permitted(SharedGate(database)), DOWN)
    dead = permitted(SharedGate(database), seconds=60.0)
    blocked = admit(SharedGate(later(database, DOUBT_MS // 2)))
    assert blocked == Blocked(ErrorClass.LIMIT_REACHED, RECHECK_CLOSED_MS)
    gate = SharedGate(later(database, DOUBT_MS + 1))
    second = permitted(gate)
    assert second.probe not in (None, dead.probe)
    assert isinstance(admit(gate), Blocked)
    gate.answered(second, used_tokens=None)
    assert permitted(gate).probe is None


@pytest.mark.parametrize("is_down", [True, False], ids=["down", "new"])
def test_a_probe_that_is_given_up_leaves_its_place_to_the_next_one(
    database: Database, is_down: bool
) -> None:
    if is_down:
        bring_down(database)
    gate = SharedGate(later(database, FIRST_OPEN_MS + 1))
    gate.given_up(permitted(gate))
    assert permitted(gate).probe is not None


def test_of_many_that_ask_at_once_no_more_get_through_than_the_limit_allows(
    database: Database,
) -> None:
    at = in_a_minute_of_its_own(database)
    gate, limits = SharedGate(at), Limits(requests=5)
    answers = succeeded(at_once([partial(admit, gate, limits=limits) for _ in range(THREADS)]))
    assert len([one for one in answers if isinstance(one, Permit)]) == 5
    blocked = [one for one in answers if isinstance(one, Blocked)]
    assert {one.error_class for one in blocked} == {ErrorClass.LIMIT_REACHED}
    assert all(RECHECK_CLOSED_MS < one.wait_ms <= MINUTE_MS // 2 for one in blocked)
    next_minute = SharedGate(later(at, MINUTE_MS))
    assert isinstance(admit(next_minute, limits=limits), Permit)


def test_tokens_are_reserved_and_put_right_by_what_the_endpoint_counted(database: Database) -> None:
    at = in_a_minute_of_its_own(database)
    gate, limits = SharedGate(at), Limits(tokens=1000)
    first = admit(gate, limits=limits, tokens=900)
    assert isinstance(first, Permit)
    blocked = admit(gate, limits=limits, tokens=200)
    assert isinstance(blocked, Blocked)
    assert blocked.error_class is ErrorClass.LIMIT_REACHED
    assert blocked.wait_ms > RECHECK_CLOSED_MS
    gate.answered(first, used_tokens=300)
    assert isinstance(admit(gate, limits=limits, tokens=700), Permit)
    assert isinstance(admit(gate, limits=limits, tokens=1), Blocked)
    assert state(at).tokens == 1000


def test_a_request_larger_than_the_limit_is_the_only_one_of_its_minute(database: Database) -> None:
    at = in_a_minute_of_its_own(database)
    gate, limits = SharedGate(at), Limits(tokens=1000)
    assert isinstance(admit(gate, limits=limits, tokens=50_000), Permit)
    assert isinstance(admit(gate, limits=limits, tokens=1), Blocked)


def test_operators_see_every_endpoint_and_close_breakers(database: Database) -> None:
    at = in_the_middle_of_a_minute(database)
    bring_down(at)
    bring_down(at, OTHER)
    soon = later(at, 10_000)
    with soon.read() as connection:
        large, small = endpoints.states(connection, soon)
    assert (large.name, small.name) == (OTHER, NAME)
    assert (small.is_open, small.probing, small.failures) == (True, False, 3)
    assert 0 < small.open_for_ms <= FIRST_OPEN_MS - 10_000
    assert small.error_class == "server_error"
    assert (small.requests, small.tokens) == (3, 300)
    over = later(at, FIRST_OPEN_MS + 1)
    permitted(SharedGate(over))
    assert state(over).probing
    assert state(over).open_for_ms == 0
    assert state(over).requests == 1
    with database.write() as connection:
        assert endpoints.close_breaker(connection, NAME) == 1
        assert endpoints.close_breaker(connection, NAME) == 0
    closed = state(at)
    assert (closed.is_open, closed.open_for_ms, closed.failures, closed.error_class) == (
        False,
        0,
        0,
        None,
    )
    establish(at)
    assert isinstance(admit(SharedGate(at), name=OTHER), Blocked)
    with database.write() as connection:
        assert endpoints.close_breaker(connection) == 1
    assert isinstance(admit(SharedGate(at), name=OTHER), Permit)


def test_operators_let_others_ask_without_waiting_for_the_one_that_does(database: Database) -> None:
    gate = SharedGate(database)
    first = permitted(gate)
    assert (state(database).is_open, state(database).probing) == (False, True)
    with database.write() as connection:
        assert endpoints.close_breaker(connection, NAME) == 1
    assert not state(database).probing
    second = permitted(gate)
    assert isinstance(admit(gate), Blocked)
    gate.given_up(first)
    assert isinstance(admit(gate), Blocked)
    gate.given_up(second)
    assert isinstance(admit(gate), Permit)


def test_a_gate_without_its_table_says_so_before_a_request_and_only_logs_it_after_one(
    database: Database, sqlite_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    permit = permitted(SharedGate(database))
    empty = open_database(sqlite_url)
    broken = SharedGate(empty)
    with pytest.raises(StorageError, match="endpoints"):
        admit(broken)
    broken.answered(permit, used_tokens=5)
    broken.failed(permit, DOWN)
    broken.given_up(replace(permit, probe=1))
    assert caplog.text.count(f"the end of a request to {NAME} was not recorded") == 3
    empty.close()


def test_the_log_says_when_an_endpoint_goes_down_and_comes_back(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="workers.summariser.gate")
    bring_down(database)
    gate = SharedGate(later(database, FIRST_OPEN_MS + 1))
    gate.answered(permitted(gate), used_tokens=None)
    assert [record.getMessage() for record in caplog.records] == [
        f'breaker.opened endpoint="{NAME}" error_class=server_error failures=3 seconds=30.000',
        f'breaker.closed endpoint="{NAME}"',
    ]
