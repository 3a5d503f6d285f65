"""When an endpoint is left alone and who finds out that it is back; what a minute holds."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.endpoints import MINUTE_MS, EndpointRecord
from workers.summariser import breaker, rate_limits
from workers.summariser.breaker import (
    DOUBT_MS,
    FIRST_OPEN_MS,
    LONGEST_OPEN_MS,
    OPEN_AFTER,
    RECHECK_CLOSED_MS,
    RECHECK_MS,
    Verdict,
    verdict_of,
)
from workers.summariser.contract import ErrorClass
from workers.summariser.endpoints import route_name
from workers.summariser.rate_limits import Limits

NOW = 29_000_000 * MINUTE_MS + 20_000
CEILING_MS = 600_000
NEW = EndpointRecord("small at host", NOW)
WELL = replace(NEW, answered_at=NOW)

DOWN = {
    ErrorClass.CONNECTION,
    ErrorClass.RATE_LIMITED,
    ErrorClass.SERVER_ERROR,
    ErrorClass.AUTH,
    ErrorClass.NOT_FOUND,
    ErrorClass.FIRST_BYTE_TIMEOUT,
}
UNCLEAR = {
    ErrorClass.IDLE_TIMEOUT,
    ErrorClass.TOTAL_TIMEOUT,
    ErrorClass.INTERRUPTED,
    ErrorClass.ERROR_PAGE,
}
ANSWERS = {error for error in ErrorClass if not error.not_asked} - DOWN - UNCLEAR


def later(endpoint: EndpointRecord, ms: int) -> EndpointRecord:
    return replace(endpoint, now=endpoint.now + ms)


def down(
    endpoint: EndpointRecord, times: int = 1, *, retry_after: float | None = None
) -> EndpointRecord:
    """Return the endpoint after that many failures of requests that were sent while all was
    well."""
    for _ in range(times):
        endpoint = breaker.failed(endpoint, None, ErrorClass.RATE_LIMITED, retry_after)
    return endpoint


def probing(endpoint: EndpointRecord) -> EndpointRecord:
    """Return the endpoint when its pause, if any, is over and somebody probes."""
    over = replace(endpoint, now=endpoint.open_until or endpoint.now)
    assert breaker.wait_ms(over) == 0
    held = breaker.begun(over, CEILING_MS)
    assert held.probe_until == over.now + (CEILING_MS if breaker.is_open(over) else DOUBT_MS)
    return held


def open_ms(endpoint: EndpointRecord) -> int:
    assert endpoint.open_until is not None
    return endpoint.open_until - endpoint.now


def test_every_failure_of_a_request_has_a_verdict() -> None:
    assert {error for error in ErrorClass if verdict_of(error) is Verdict.DOWN} == DOWN
    assert {error for error in ErrorClass if verdict_of(error) is Verdict.UNCLEAR} == UNCLEAR
    assert ErrorClass.BAD_REQUEST in ANSWERS
    assert ErrorClass.CONTEXT_OVERFLOW in ANSWERS
    assert ErrorClass.EMPTY in ANSWERS


@pytest.mark.parametrize("endpoint", [NEW, WELL], ids=["new", "well"])
@pytest.mark.parametrize("error", sorted(DOWN))
def test_the_third_failure_in_a_row_opens_the_breaker_for_half_a_minute(
    error: ErrorClass, endpoint: EndpointRecord
) -> None:
    for _ in range(OPEN_AFTER):
        assert breaker.wait_ms(endpoint) == 0
        sent = breaker.begun(endpoint, CEILING_MS)
        endpoint = breaker.failed(sent, sent.probe_until, error, None)
    assert breaker.wait_ms(endpoint) == FIRST_OPEN_MS == 30_000
    assert (endpoint.failures, endpoint.error_class) == (3, error.value)


@pytest.mark.parametrize("error", sorted(ANSWERS))
def test_a_refused_request_and_a_bad_answer_are_no_failure_of_the_endpoint(
    error: ErrorClass,
) -> None:
    assert breaker.failed(WELL, None, error, None) == WELL
    assert breaker.failed(down(WELL, 2), None, error, None) == WELL
    held = probing(NEW)
    assert breaker.failed(held, held.probe_until, error, None) == WELL


@pytest.mark.parametrize("error", sorted(UNCLEAR))
def test_an_answer_that_breaks_off_counts_neither_way(error: ErrorClass) -> None:
    for shaky in (NEW, WELL, down(WELL, 2)):
        assert breaker.failed(shaky, None, error, None) == shaky


def test_an_answer_between_failures_begins_the_count_anew() -> None:
    endpoint = down(breaker.answered(down(WELL, 2), None), 2)
    assert endpoint.open_until is None
    assert down(endpoint).open_until is not None


def test_each_probe_that_fails_doubles_the_pause_up_to_ten_minutes() -> None:
    endpoint, pauses = down(NEW, 3), []
    for _ in range(7):
        pauses.append(open_ms(endpoint))
        held = probing(endpoint)
        endpoint = breaker.failed(held, held.probe_until, ErrorClass.CONNECTION, None)
        assert endpoint.probe_until is None
    assert pauses == [30_000, 60_000, 120_000, 240_000, 480_000, 600_000, 600_000]


@pytest.mark.parametrize(("asked", "pause"), [(7.0, 30_000), (90.5, 90_500), (86_400.0, 600_000)])
def test_the_wait_that_the_endpoint_asks_for_is_the_least_pause(asked: float, pause: int) -> None:
    assert open_ms(down(NEW, 3, retry_after=asked)) == pause
    held = probing(down(NEW, 3))
    again = breaker.failed(held, held.probe_until, ErrorClass.RATE_LIMITED, asked)
    assert open_ms(again) == max(60_000, pause)


def test_a_wait_that_was_asked_for_does_not_make_later_pauses_longer() -> None:
    held = probing(down(NEW, 3, retry_after=400.0))
    again = breaker.failed(held, held.probe_until, ErrorClass.RATE_LIMITED, None)
    assert open_ms(again) == 60_000


def test_one_probe_at_a_time_and_the_others_look_again_soon() -> None:
    held = probing(down(NEW, 3))
    assert breaker.wait_ms(held) == RECHECK_MS
    assert breaker.wait_ms(later(held, CEILING_MS - 100)) == 100
    assert breaker.wait_ms(later(held, CEILING_MS)) == 0


@pytest.mark.parametrize("error", [None, ErrorClass.EMPTY, ErrorClass.BAD_REQUEST])
def test_any_answer_to_a_probe_closes_the_breaker(error: ErrorClass | None) -> None:
    held = probing(down(NEW, 3))
    if error is None:
        well = breaker.answered(held, held.probe_until)
    else:
        well = breaker.failed(held, held.probe_until, error, None)
    assert well == replace(WELL, now=held.now, answered_at=held.now)
    assert breaker.begun(well, CEILING_MS) == well


@pytest.mark.parametrize("error", sorted(UNCLEAR))
def test_a_probe_that_breaks_off_brought_no_answer(error: ErrorClass) -> None:
    held = probing(down(NEW, 3))
    assert open_ms(breaker.failed(held, held.probe_until, error, None)) == 60_000


@pytest.mark.parametrize("endpoint", [NEW, down(WELL), down(WELL, 3)], ids=["new", "1", "3"])
def test_a_probe_that_is_given_up_frees_its_place_and_nothing_else(
    endpoint: EndpointRecord,
) -> None:
    held = probing(endpoint)
    freed = breaker.given_up(held, held.probe_until)
    assert freed == replace(held, probe_until=None)
    assert breaker.wait_ms(freed) == 0


def test_an_endpoint_that_answers_is_asked_by_many_at_once() -> None:
    assert not breaker.is_doubtful(WELL)
    assert breaker.begun(WELL, CEILING_MS) == WELL
    assert breaker.wait_ms(WELL) == 0


@pytest.mark.parametrize(
    "endpoint", [NEW, down(NEW), down(WELL), down(WELL, 2)], ids=["new", "new-1", "1", "2"]
)
def test_an_endpoint_in_doubt_is_asked_by_one_at_a_time_until_it_answers(
    endpoint: EndpointRecord,
) -> None:
    assert breaker.is_doubtful(endpoint)
    assert not breaker.is_open(endpoint)
    held = probing(endpoint)
    assert breaker.wait_ms(held) == RECHECK_CLOSED_MS == 2_000
    assert breaker.wait_ms(later(held, DOUBT_MS - 100)) == 100
    assert breaker.wait_ms(later(held, DOUBT_MS)) == 0
    well = breaker.answered(held, held.probe_until)
    assert well == WELL
    assert not breaker.is_doubtful(well)


@pytest.mark.parametrize("error", sorted(DOWN))
def test_a_probe_that_fails_lets_the_next_one_ask_at_once_while_the_breaker_is_closed(
    error: ErrorClass,
) -> None:
    held = probing(down(WELL))
    freed = breaker.failed(held, held.probe_until, error, 60.0)
    assert freed == replace(held, failures=2, error_class=error.value, probe_until=None)
    assert breaker.wait_ms(freed) == 0


@pytest.mark.parametrize("error", sorted(UNCLEAR))
def test_a_probe_that_breaks_off_while_the_breaker_is_closed_only_frees_its_place(
    error: ErrorClass,
) -> None:
    for endpoint in (NEW, down(WELL, 2)):
        held = probing(endpoint)
        assert breaker.failed(held, held.probe_until, error, None) == endpoint


def test_an_answer_to_an_earlier_request_ends_the_doubt_before_the_probe_does() -> None:
    held = probing(down(WELL, 2))
    well = breaker.answered(held, None)
    assert well == WELL
    assert breaker.given_up(well, held.probe_until) == well
    assert breaker.failed(well, held.probe_until, ErrorClass.CONNECTION, None) == replace(
        well, failures=1, error_class="connection"
    )


def test_a_failure_of_an_earlier_request_leaves_the_probe_its_place() -> None:
    held = probing(down(WELL))
    assert down(held) == replace(held, failures=2)


def test_a_probe_from_before_the_breaker_opened_says_nothing_and_keeps_no_place() -> None:
    held = probing(down(WELL))
    opened = down(held, 2)
    assert open_ms(opened) == FIRST_OPEN_MS
    assert breaker.answered(opened, held.probe_until) == opened
    assert breaker.given_up(opened, held.probe_until) == opened
    for error in (ErrorClass.RATE_LIMITED, ErrorClass.EMPTY, ErrorClass.IDLE_TIMEOUT):
        assert breaker.failed(opened, held.probe_until, error, 500.0) == opened
    assert probing(opened).probe_until != held.probe_until


def test_what_was_asked_before_the_breaker_opened_says_nothing() -> None:
    for endpoint in (down(WELL, 3), probing(down(WELL, 3))):
        assert breaker.answered(endpoint, None) == endpoint
        assert breaker.given_up(endpoint, None) == endpoint
        for error in (ErrorClass.RATE_LIMITED, ErrorClass.EMPTY, ErrorClass.IDLE_TIMEOUT):
            assert breaker.failed(endpoint, None, error, 500.0) == endpoint


def test_a_probe_whose_place_was_taken_over_decides_nothing() -> None:
    first = probing(down(NEW, 3))
    second = breaker.begun(later(first, CEILING_MS + 1), CEILING_MS)
    assert second.probe_until != first.probe_until
    assert breaker.answered(second, first.probe_until) == second
    assert breaker.failed(second, first.probe_until, ErrorClass.CONNECTION, None) == second
    assert breaker.given_up(second, first.probe_until) == second


_STEPS = st.lists(
    st.tuples(
        st.integers(0, 700_000),
        st.sampled_from([*sorted(DOWN | UNCLEAR), ErrorClass.EMPTY, ErrorClass.BAD_REQUEST, None]),
        st.none() | st.floats(0, 90_000),
    ),
    max_size=30,
)


@given(endpoint=st.sampled_from([NEW, WELL]), steps=_STEPS)
def test_whatever_happens_an_endpoint_is_asked_again_within_ten_minutes(
    endpoint: EndpointRecord, steps: list[tuple[int, ErrorClass | None, float | None]]
) -> None:
    for passed_ms, error, asked in steps:
        endpoint = later(endpoint, passed_ms)
        if breaker.wait_ms(endpoint):
            continue
        sent = breaker.begun(endpoint, 1_000)
        assert (sent.probe_until is not None) == breaker.is_doubtful(endpoint)
        if error is None:
            endpoint = breaker.answered(sent, sent.probe_until)
        else:
            endpoint = breaker.failed(sent, sent.probe_until, error, asked)
        assert 0 <= breaker.wait_ms(endpoint) <= LONGEST_OPEN_MS
        assert endpoint.probe_until is None
        if error is None or verdict_of(error) is Verdict.ANSWERS:
            assert breaker.wait_ms(endpoint) == endpoint.failures == 0
            assert not breaker.is_doubtful(endpoint)


@given(
    endpoint=st.sampled_from([NEW, down(WELL)]),
    steps=st.lists(
        st.tuples(
            st.integers(0, 20_000),
            st.none() | st.sampled_from(sorted(DOWN | UNCLEAR)),
        ),
        max_size=60,
    ),
)
def test_while_nobody_answers_no_second_request_is_sent_beside_one_that_may_still_run(
    endpoint: EndpointRecord, steps: list[tuple[int, ErrorClass | None]]
) -> None:
    out: int | None = None
    for passed_ms, error in steps:
        endpoint = later(endpoint, passed_ms)
        if error is not None and out is not None:
            endpoint, out = breaker.failed(endpoint, out, error, None), None
        elif breaker.wait_ms(endpoint) == 0:
            assert out is None or out <= endpoint.now
            endpoint = breaker.begun(endpoint, 30_000)
            out = endpoint.probe_until


def used(requests: int, tokens: int) -> EndpointRecord:
    return replace(NEW, minute=NEW.this_minute, requests=requests, tokens=tokens)


def test_without_limits_nothing_waits() -> None:
    assert rate_limits.wait_ms(used(10_000, 10**9), Limits(), 10**6) == 0


def test_requests_beyond_the_limit_wait_for_the_next_minute() -> None:
    assert rate_limits.wait_ms(used(4, 0), Limits(requests=5), 0) == 0
    assert rate_limits.wait_ms(used(5, 0), Limits(requests=5), 0) == 40_000
    assert rate_limits.wait_ms(later(used(5, 0), 40_000), Limits(requests=5), 0) == 0


def test_tokens_beyond_the_limit_wait_for_the_next_minute() -> None:
    assert rate_limits.wait_ms(used(1, 600), Limits(tokens=1000), 400) == 0
    assert rate_limits.wait_ms(used(1, 600), Limits(tokens=1000), 401) == 40_000


def test_a_request_larger_than_the_limit_goes_through_in_an_empty_minute() -> None:
    limits = Limits(requests=5, tokens=1000)
    assert rate_limits.wait_ms(NEW, limits, 5000) == 0
    sent = rate_limits.reserved(NEW, 5000)
    assert rate_limits.wait_ms(sent, limits, 1) == 40_000


def test_a_reservation_counts_and_is_put_right_within_its_minute() -> None:
    first = rate_limits.reserved(used(7, 300), 100)
    assert first.used == (8, 400)
    assert rate_limits.settled(first, first.minute, 100, 250).used == (8, 550)
    next_minute = rate_limits.reserved(later(first, MINUTE_MS), 50)
    assert next_minute.used == (1, 50)
    assert rate_limits.settled(next_minute, first.minute, 100, 250) == next_minute


def test_the_next_minute_begins_with_nothing_used() -> None:
    assert later(used(7, 300), 39_999).used == (7, 300)
    assert later(used(7, 300), 40_000).used == (0, 0)


@pytest.mark.parametrize(
    "url",
    [
        "https://joe:hunter2@Models.example:8443/hush/v1?key=hush",
        "https://hush@models.example:8443",
    ],
)
def test_the_name_of_an_endpoint_holds_model_and_host_and_no_secret(url: str) -> None:
    assert route_name("qwen/small", url) == "qwen/small at models.example:8443"
