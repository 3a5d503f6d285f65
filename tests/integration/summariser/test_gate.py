"""The chain of models behind breaker and limits, against a real HTTP server that plays them.

Several `Worker`s are several processes: each has a client and connections of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from functools import partial
from itertools import islice
from typing import Any, TypeVar

import pytest

from storage import endpoints
from storage.endpoints import MINUTE_MS, EndpointState
from storage.engine import Database, open_database
from storage.errors import StorageError
from tests.support.model.behaviours import Behaviour, Empty, Reset, Silence, Status
from tests.support.model.server import ModelServer
from tests.support.observing.at_once import at_once, succeeded
from tests.support.sessions.gateways import url_of
from tests.support.sessions.stored_session import later
from workers.settings import Settings, SettingsSource
from workers.summariser.breaker import FIRST_OPEN_MS, OPEN_AFTER, RECHECK_CLOSED_MS, RECHECK_MS
from workers.summariser.chain import FollowingSummariser
from workers.summariser.contract import (
    ErrorClass,
    Passage,
    Reply,
    Stopped,
    SummariserError,
    SummaryRequest,
    Task,
)
from workers.summariser.endpoints import SummariserSettings, chain_fingerprint
from workers.summariser.gate import SharedGate

Result = TypeVar("Result")

ATTEMPTS = 3
"""What one job spends on a summary."""
THREADS = 8
AFTER_PAUSE_MS = FIRST_OPEN_MS + 1

REQUEST = SummaryRequest(
    task=Task.ABSORB,
    previous="",
    question="Where is the violet umbrella?",
    passages=(Passage("assistant", "The violet umbrella is in the hall."),),
    target_tokens=200,
    replaced_tokens=1_000,
    today=date(2025, 3, 1),
)


def never() -> bool:
    return False


@pytest.fixture
def first() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running


@pytest.fixture
def second() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running


def chain(*servers: ModelServer, **more: Any) -> dict[str, Any]:
    """Block `auxiliary.compression` that names a model on each server; `more` is of the first."""
    head, *rest = [
        {"model": f"model-{number}", "base_url": server.base_url}
        for number, server in enumerate(servers, 1)
    ]
    return {**head, **more, "fallback_chain": rest}


@contextmanager
def worker(
    database: Database, block: dict[str, Any], *, offset_ms: int = 0, **compression: Any
) -> Iterator[FollowingSummariser]:
    """Yield what a process of its own asks, `offset_ms` from now."""
    settings = Settings.model_validate(
        {"auxiliary": {"compression": block}, "compression": compression}
    )
    own = open_database(url_of(database), offset_ms=database.offset_ms + offset_ms)
    summariser = FollowingSummariser(SettingsSource.fixed(settings), {}, SharedGate(own))
    try:
        yield summariser
    finally:
        summariser.close()
        own.close()


def answer(summariser: FollowingSummariser, request: SummaryRequest = REQUEST) -> Reply:
    return summariser.summarise(request, never)


def failure(summariser: FollowingSummariser, request: SummaryRequest = REQUEST) -> SummariserError:
    with pytest.raises(SummariserError) as caught:
        summariser.summarise(request, never)
    return caught.value


def job(summariser: FollowingSummariser) -> list[SummariserError]:
    """Return a job's attempts to get a summary, as long as anybody is asked."""
    errors: list[SummariserError] = []
    while len(errors) < ATTEMPTS:
        errors.append(failure(summariser))
        if errors[-1].error_class.not_asked:
            break
    return errors


def asked(summariser: FollowingSummariser) -> SummariserError | None:
    """Return why no answer came; None where one did."""
    try:
        answer(summariser)
    except SummariserError as error:
        return error
    return None


def first_of(calls: Sequence[Future[Result]], count: int) -> list[Result]:
    """Return the results of the `count` calls that end first."""
    return [call.result() for call in islice(as_completed(calls, timeout=30), count)]


def states(database: Database) -> dict[str, EndpointState]:
    """Return what is stored, by the number of the model."""
    with database.read() as connection:
        found = endpoints.states(connection, database)
    return {one.name.partition(" at ")[0]: one for one in found}


def test_a_permanent_429_costs_attempts_times_models_and_then_nothing(
    database: Database, first: ModelServer, second: ModelServer
) -> None:
    for server in (first, second):
        server.always(Status(429))
    with worker(database, chain(first, second)) as summariser:
        errors = job(summariser)
        assert [error.error_class for error in errors] == [ErrorClass.RATE_LIMITED] * ATTEMPTS
        assert [error.requests for error in errors] == [2, 2, 2]
        assert len(first.requests) == len(second.requests) == ATTEMPTS
        for _ in range(100):
            (error,) = job(summariser)
            assert error.error_class is ErrorClass.BREAKER_OPEN
            assert error.requests == 0
            assert error.retry_after is not None
            assert 0 < error.retry_after <= FIRST_OPEN_MS / 1000
    with worker(database, chain(first, second)) as another:
        assert failure(another).error_class is ErrorClass.BREAKER_OPEN
    assert len(first.requests) + len(second.requests) == 2 * ATTEMPTS


@pytest.mark.parametrize("known", [False, True], ids=["new", "established"])
def test_a_hundred_sessions_on_eight_threads_send_ten_requests_at_most(
    database: Database, first: ModelServer, known: bool
) -> None:
    with worker(database, chain(first)) as summariser, ThreadPoolExecutor(THREADS) as pool:
        if known:
            answer(summariser)
            first.forget()
        first.always(Status(429))
        errors = list(pool.map(lambda _: job(summariser), range(100)))
    assert OPEN_AFTER <= len(first.requests) <= 10
    assert sum(error.requests for jobs in errors for error in jobs) == len(first.requests)


def test_of_eight_that_ask_a_new_model_one_does_until_it_has_answered_and_then_all(
    database: Database, first: ModelServer
) -> None:
    with worker(database, chain(first)) as summariser, ThreadPoolExecutor(THREADS) as pool:
        with first.hold():
            calls = [pool.submit(asked, summariser) for _ in range(THREADS)]
            first.wait_for_requests(1)
            blocked = first_of(calls, THREADS - 1)
        assert [(e.error_class, e.retry_after, e.requests) for e in blocked if e] == [
            (ErrorClass.LIMIT_REACHED, RECHECK_CLOSED_MS / 1000, 0)
        ] * (THREADS - 1)
        assert [call.result() for call in calls].count(None) == 1
        assert len(first.requests) == 1
        with first.hold():
            calls = [pool.submit(asked, summariser) for _ in range(THREADS)]
            first.wait_for_requests(1 + THREADS)
        assert [call.result() for call in calls] == [None] * THREADS
    assert first.concurrent_max == THREADS


def test_eight_that_ask_when_a_model_begins_to_fail_cost_a_request_each_and_nobody_else_any(
    database: Database, first: ModelServer
) -> None:
    with worker(database, chain(first)) as summariser, ThreadPoolExecutor(THREADS) as pool:
        answer(summariser)
        first.always(Status(503))
        with first.hold():
            calls = [pool.submit(failure, summariser) for _ in range(THREADS)]
            first.wait_for_requests(1 + THREADS)
        assert {call.result().error_class for call in calls} == {ErrorClass.SERVER_ERROR}
        assert failure(summariser).error_class is ErrorClass.BREAKER_OPEN
    assert len(first.requests) == 1 + THREADS


def test_after_one_failure_eight_that_ask_at_once_send_one_request_at_a_time(
    database: Database, first: ModelServer
) -> None:
    with worker(database, chain(first)) as summariser, ThreadPoolExecutor(THREADS) as pool:
        answer(summariser)
        first.always(Status(503))
        assert failure(summariser).error_class is ErrorClass.SERVER_ERROR
        for sent in (3, 4):
            with first.hold():
                calls = [pool.submit(failure, summariser) for _ in range(THREADS)]
                first.wait_for_requests(sent)
                blocked = first_of(calls, THREADS - 1)
            assert {error.error_class for error in blocked} == {ErrorClass.LIMIT_REACHED}
            assert sum(call.result().requests for call in calls) == 1
        assert failure(summariser).error_class is ErrorClass.BREAKER_OPEN
    assert len(first.requests) == 1 + OPEN_AFTER
    assert first.concurrent_max == 1


def test_when_the_pause_is_over_exactly_one_of_eight_finds_out_that_it_is_still_down(
    database: Database, first: ModelServer
) -> None:
    first.always(Status(503))
    with worker(database, chain(first)) as summariser:
        job(summariser)
    first.forget()
    first.always(Status(503))
    with worker(database, chain(first), offset_ms=AFTER_PAUSE_MS) as summariser:
        with ThreadPoolExecutor(THREADS) as pool, first.hold():
            calls = [pool.submit(failure, summariser) for _ in range(THREADS)]
            first.wait_for_requests(1)
            blocked = first_of(calls, THREADS - 1)
        assert {error.error_class for error in blocked} == {ErrorClass.BREAKER_OPEN}
        assert {error.retry_after for error in blocked} == {RECHECK_MS / 1000}
        assert sum(call.result().requests for call in calls) == 1
        after = failure(summariser)
        assert after.error_class is ErrorClass.BREAKER_OPEN
        assert after.retry_after is not None
        assert 30 < after.retry_after <= 60
    assert len(first.requests) == 1


def test_a_probe_that_is_answered_lets_everybody_ask_again(
    database: Database, first: ModelServer
) -> None:
    first.always(Reset())
    with worker(database, chain(first)) as summariser:
        assert {e.error_class for e in job(summariser)} == {ErrorClass.CONNECTION}
    first.forget()
    with worker(database, chain(first), offset_ms=AFTER_PAUSE_MS) as summariser:
        assert answer(summariser).requests == 1
        replies = succeeded(at_once([partial(answer, summariser)] * THREADS))
    assert len(replies) == THREADS
    assert not states(database)["model-1"].is_open


@pytest.mark.parametrize("behaviour", [Empty(), Status(400)], ids=["empty", "400"])
def test_a_bad_answer_to_a_probe_closes_the_breaker_too(
    database: Database, first: ModelServer, behaviour: Behaviour
) -> None:
    first.always(Status(500))
    with worker(database, chain(first)) as summariser:
        job(summariser)
    first.always(behaviour)
    with worker(database, chain(first), offset_ms=AFTER_PAUSE_MS) as summariser:
        assert failure(summariser).error_class in (ErrorClass.EMPTY, ErrorClass.BAD_REQUEST)
        first.always(Status(500))
        assert failure(summariser).error_class is ErrorClass.SERVER_ERROR


@pytest.mark.parametrize("code", [400, 413])
def test_a_refused_request_opens_no_breaker(
    database: Database, first: ModelServer, code: int
) -> None:
    first.always(Status(code, body={"error": {"message": "prompt is too long"}}))
    with worker(database, chain(first)) as summariser:
        for _ in range(2 * OPEN_AFTER):
            assert failure(summariser).error_class is ErrorClass.CONTEXT_OVERFLOW
    assert states(database)["model-1"].failures == 0


def test_an_endpoint_that_stays_silent_is_down_for_everyone(
    database: Database, first: ModelServer
) -> None:
    first.always(Silence())
    with worker(database, chain(first, timeout=0.15)) as summariser:
        errors = [*job(summariser), failure(summariser)]
    assert [error.error_class for error in errors] == [
        *[ErrorClass.FIRST_BYTE_TIMEOUT] * ATTEMPTS,
        ErrorClass.BREAKER_OPEN,
    ]


def test_the_wait_that_the_endpoint_asks_for_is_the_pause(
    database: Database, first: ModelServer
) -> None:
    first.always(Status(429, retry_after="200"))
    with worker(database, chain(first)) as summariser:
        assert [error.retry_after for error in job(summariser)] == [200.0] * ATTEMPTS
        blocked = failure(summariser)
    assert blocked.retry_after is not None
    assert 170 < blocked.retry_after <= 200


@pytest.mark.parametrize(
    ("behaviour", "error_class"),
    [
        (Status(401), "auth"),
        (Status(403), "auth"),
        (Status(404), "not_found"),
        (Status(400), "bad_request"),
        (Status(408), "server_error"),
        (Status(429), "rate_limited"),
        (Status(502), "server_error"),
        (Reset(), "connection"),
        (Empty(), "empty"),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_every_failure_leads_to_the_next_model_and_the_log_names_who_failed(
    database: Database,
    first: ModelServer,
    second: ModelServer,
    behaviour: Behaviour,
    error_class: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    first.always(behaviour)
    with worker(database, chain(first, second)) as summariser:
        reply = answer(summariser)
    assert (reply.model, reply.requests) == ("model-2", 2)
    logged = [r.getMessage() for r in caplog.records if r.name == "workers.summariser.chain"]
    assert len(logged) == 1
    named = f'endpoint="model-1 at 127.0.0.1:{first.port}" error_class={error_class}'
    assert logged[0].startswith(f"model.failed {named}")


def test_while_the_first_model_is_down_the_second_one_answers_alone(
    database: Database, first: ModelServer, second: ModelServer
) -> None:
    first.always(Status(503))
    with worker(database, chain(first, second)) as summariser:
        replies = [answer(summariser) for _ in range(OPEN_AFTER + 2)]
    assert [reply.requests for reply in replies] == [2, 2, 2, 1, 1]
    assert len(first.requests) == OPEN_AFTER
    assert states(database)["model-1"].is_open
    assert not states(database)["model-2"].is_open


def test_the_error_is_of_the_model_that_a_repetition_may_mend(
    database: Database, first: ModelServer, second: ModelServer
) -> None:
    first.always(Status(429, retry_after="7"))
    second.always(Status(401))
    with worker(database, chain(first, second)) as summariser:
        error = failure(summariser)
    assert (error.error_class, error.retry_after) == (ErrorClass.RATE_LIMITED, 7.0)
    assert error.detail == f"model-1 at 127.0.0.1:{first.port}: HTTP 429"
    assert error.requests == 2


def test_the_error_is_of_the_last_model_where_all_are_alike(
    database: Database, first: ModelServer, second: ModelServer
) -> None:
    first.always(Status(404))
    second.always(Status(401))
    with worker(database, chain(first, second)) as summariser:
        error = failure(summariser)
    assert error.error_class is ErrorClass.AUTH
    assert error.detail == f"model-2 at 127.0.0.1:{second.port}: HTTP 401"


def test_the_error_is_of_who_was_asked_while_another_one_is_not(
    database: Database, first: ModelServer, second: ModelServer
) -> None:
    second.always(Status(503))
    first.always(Status(503))
    with worker(database, chain(first)) as summariser:
        job(summariser)
    with worker(database, chain(first, second)) as summariser:
        error = failure(summariser)
    assert error.error_class is ErrorClass.SERVER_ERROR
    assert error.detail.startswith("model-2 at ")
    assert error.requests == 1


def test_where_nobody_may_be_asked_the_shortest_wait_counts(
    database: Database, first: ModelServer, second: ModelServer
) -> None:
    first.always(Status(429, retry_after="300"))
    second.always(Status(429, retry_after="100"))
    with worker(database, chain(first, second)) as summariser:
        job(summariser)
        error = failure(summariser)
    assert error.error_class is ErrorClass.BREAKER_OPEN
    assert error.detail.startswith("model-2 at ")
    assert error.retry_after is not None
    assert 70 < error.retry_after <= 100


def test_the_built_in_summariser_answers_where_every_model_is_down(
    database: Database, first: ModelServer
) -> None:
    first.always(Status(503))
    block = {**chain(first), "fallback_chain": [{"provider": "local"}]}
    with worker(database, block) as summariser:
        replies = [answer(summariser) for _ in range(OPEN_AFTER + 1)]
    assert [reply.model for reply in replies] == ["local"] * 4
    assert [reply.requests for reply in replies] == [2, 2, 2, 1]
    assert len(first.requests) == OPEN_AFTER
    assert list(states(database)) == ["model-1"]


def test_a_probe_that_its_worker_gives_up_lets_the_next_one_probe(
    database: Database, first: ModelServer
) -> None:
    first.always(Status(503))
    with worker(database, chain(first)) as summariser:
        job(summariser)
    first.forget()
    with worker(database, chain(first), offset_ms=AFTER_PAUSE_MS) as summariser:
        with first.hold(), pytest.raises(Stopped):
            summariser.summarise(REQUEST, lambda: first.in_flight == 1)
        assert len(first.requests) == 1
        assert states(database)["model-1"].is_open
        assert answer(summariser).requests == 1


def test_an_error_in_the_callers_stop_frees_the_probe_too(
    database: Database, first: ModelServer
) -> None:
    def lost() -> bool:
        if first.in_flight:
            raise LookupError("lease lost")
        return False

    first.always(Status(503))
    with worker(database, chain(first)) as summariser:
        job(summariser)
    first.forget()
    with worker(database, chain(first), offset_ms=AFTER_PAUSE_MS) as summariser:
        with first.hold(), pytest.raises(LookupError):
            summariser.summarise(REQUEST, lost)
        assert answer(summariser).requests == 1


def test_a_caller_that_stops_already_takes_no_place(database: Database, first: ModelServer) -> None:
    with worker(database, chain(first)) as summariser, pytest.raises(Stopped):
        summariser.summarise(REQUEST, lambda: True)
    assert states(database) == {}
    assert first.requests == []


@pytest.mark.parametrize("own", [None, 900.0])
def test_a_probe_holds_its_place_as_long_as_its_call_may_take(
    database: Database, first: ModelServer, own: float | None
) -> None:
    first.always(Status(503))
    with worker(database, chain(first)) as summariser:
        job(summariser)
    first.forget()
    request = replace(REQUEST, total_seconds=own)
    held = worker(
        database,
        chain(first),
        offset_ms=AFTER_PAUSE_MS,
        context_total_ceiling_seconds=700.0,
    )
    with held as summariser:
        with ThreadPoolExecutor(1) as pool, first.hold():
            call = pool.submit(answer, summariser, request)
            first.wait_for_requests(1)
            ceiling_ms = int(1000 * (own or 700.0))
            for passed_ms, taken in ((ceiling_ms - 60_000, True), (ceiling_ms + 1, False)):
                then = later(database, AFTER_PAUSE_MS + passed_ms)
                assert states(then)["model-1"].probing is taken
        assert call.result().requests == 1


def middle_of_a_minute(database: Database) -> Database:
    """Return the database at a time when no minute ends soon."""
    with database.write() as connection:
        now = endpoints.lock(connection, database, "clock at hand").now
    return later(database, MINUTE_MS // 2 - now % MINUTE_MS)


def test_beyond_the_limit_of_requests_nobody_is_asked_until_the_next_minute(
    database: Database, first: ModelServer
) -> None:
    at = middle_of_a_minute(database)
    with worker(at, chain(first), offset_ms=-MINUTE_MS) as summariser:
        answer(summariser)
    first.forget()
    with worker(at, chain(first, requests_per_minute=3)) as summariser:
        results = at_once([partial(answer, summariser)] * THREADS)
    errors = [result for result in results if isinstance(result, SummariserError)]
    assert len(first.requests) == 3
    assert [error.error_class for error in errors] == [ErrorClass.LIMIT_REACHED] * 5
    assert all(error.retry_after is not None and 2 < error.retry_after <= 30 for error in errors)
    with worker(at, chain(first, requests_per_minute=3), offset_ms=MINUTE_MS) as summariser:
        assert answer(summariser).requests == 1


def test_beyond_the_limit_of_the_first_model_the_second_one_is_asked(
    database: Database, first: ModelServer, second: ModelServer
) -> None:
    at = middle_of_a_minute(database)
    with worker(at, chain(first, second, requests_per_minute=1)) as summariser:
        assert [answer(summariser).model for _ in range(3)] == ["model-1", "model-2", "model-2"]


def test_tokens_are_reserved_while_a_call_runs_and_then_as_the_model_counted_them(
    database: Database, first: ModelServer
) -> None:
    at = middle_of_a_minute(database)
    with worker(at, chain(first, tokens_per_minute=10_000)) as summariser:
        with ThreadPoolExecutor(1) as pool, first.hold():
            call = pool.submit(answer, summariser)
            first.wait_for_requests(1)
            reserved = states(at)["model-1"].tokens
        reply = call.result()
    assert reply.prompt_tokens is not None
    assert reply.completion_tokens is not None
    assert reserved == pytest.approx(reply.prompt_tokens, rel=0.3)
    assert states(at)["model-1"].tokens == reply.prompt_tokens + reply.completion_tokens


def test_a_request_larger_than_the_limit_of_tokens_is_sent_alone(
    database: Database, first: ModelServer
) -> None:
    at = middle_of_a_minute(database)
    with worker(at, chain(first, tokens_per_minute=10)) as summariser:
        assert answer(summariser).requests == 1
        assert failure(summariser).error_class is ErrorClass.LIMIT_REACHED


def test_a_database_that_fails_is_named_and_no_model_is_asked(
    first: ModelServer, sqlite_url: str
) -> None:
    empty = open_database(sqlite_url)
    with worker(empty, chain(first)) as summariser, pytest.raises(StorageError, match="endpoints"):
        answer(summariser)
    assert first.requests == []
    empty.close()


def test_without_a_gate_every_model_is_asked_each_time(
    first: ModelServer, second: ModelServer
) -> None:
    first.always(Status(503))
    settings = Settings.model_validate({"auxiliary": {"compression": chain(first, second)}})
    summariser = FollowingSummariser(SettingsSource.fixed(settings), {})
    replies = [answer(summariser) for _ in range(2 * OPEN_AFTER)]
    summariser.close()
    assert {reply.requests for reply in replies} == {2}


def test_the_fingerprint_follows_models_and_urls_and_not_keys() -> None:
    def fingerprint(secrets: dict[str, str], **block: Any) -> int:
        settings = Settings.model_validate({"auxiliary": {"compression": block}})
        source = SettingsSource.fixed(settings)
        found = FollowingSummariser(source, secrets).fingerprint
        assert found == chain_fingerprint(SummariserSettings.model_validate(block))
        return found

    one = {"model": "a", "base_url": "http://joe:pw@host/v1"}
    plain = fingerprint({}, **one)
    assert 0 <= plain < 2**63
    assert plain == fingerprint({"OPENAI_API_KEY": "hush"}, **one)
    assert plain == fingerprint({}, **{**one, "base_url": "http://ann:other@host/v1"})
    assert plain == fingerprint({}, **one, timeout=7.0, requests_per_minute=5)
    changed = [
        fingerprint({}, **{**one, "model": "b"}),
        fingerprint({}, **{**one, "base_url": "http://host/v2"}),
        fingerprint({}, **one, fallback_chain=[{"model": "b", "base_url": "http://host/v1"}]),
        fingerprint({}),
    ]
    assert len({plain, *changed}) == 5


def test_a_missing_key_counts_as_no_request() -> None:
    settings = Settings.model_validate(
        {"auxiliary": {"compression": {"provider": "openai", "model": "small"}}}
    )
    error = failure(FollowingSummariser(SettingsSource.fixed(settings), {}))
    assert (error.error_class, error.requests) == (ErrorClass.AUTH, 0)
