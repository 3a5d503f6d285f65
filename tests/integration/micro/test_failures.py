"""A summariser that misbehaves in every way changes nothing.

The model is a local server that speaks the real protocol through the real client.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import pytest

from producers import Session
from storage import attempts, guards
from storage.conversations import cursors
from storage.conversations.cursors import CursorName
from storage.guards import GuardName
from storage.jobs import JobKind, JobState
from storage.outcomes import Outcome
from tests.support.model.behaviours import (
    BadJson,
    Behaviour,
    Cut,
    Echo,
    Empty,
    Good,
    Huge,
    KeepAlive,
    Length,
    NullContent,
    Page,
    Plan,
    ReasoningOnly,
    Refusal,
    Reset,
    Say,
    Secrets,
    Silence,
    Status,
    ToolCall,
    Trickle,
    WrongScript,
)
from tests.support.model.server import ModelServer
from tests.support.sessions.conversations import turn
from tests.support.sessions.play import Play, Turn, micro_markers, person_rows, playing
from tests.support.sessions.stored_session import later
from workers.policy.failures import RetryPolicy
from workers.runtime.pass_context import PassResult
from workers.settings import Settings, SettingsSource
from workers.summariser.breaker import FIRST_OPEN_MS, RECHECK_CLOSED_MS
from workers.summariser.chain import FollowingSummariser
from workers.summariser.client import OpenAISummariser
from workers.summariser.contract import ErrorClass
from workers.summariser.endpoints import route_name
from workers.summariser.gate import Permit, SharedGate
from workers.summariser.rate_limits import Limits

TURNS = 16

BAD_ANSWERS: list[tuple[Behaviour, ErrorClass]] = [
    (Silence(), ErrorClass.FIRST_BYTE_TIMEOUT),
    (KeepAlive(), ErrorClass.FIRST_BYTE_TIMEOUT),
    (Silence(chunks=2), ErrorClass.IDLE_TIMEOUT),
    (Trickle(), ErrorClass.TOTAL_TIMEOUT),
    (Cut(), ErrorClass.INTERRUPTED),
    (Empty(), ErrorClass.EMPTY),
    (NullContent(), ErrorClass.EMPTY),
    (ReasoningOnly(), ErrorClass.EMPTY),
    (Length(), ErrorClass.CUT_BY_LENGTH),
    (Echo(), ErrorClass.ECHO),
    (Huge(), ErrorClass.TOO_LARGE),
    (Page(), ErrorClass.ERROR_PAGE),
    (BadJson(), ErrorClass.ERROR_PAGE),
    (Plan(), ErrorClass.PLAN),
    (Refusal(), ErrorClass.REFUSAL),
    (WrongScript(), ErrorClass.WRONG_SCRIPT),
    (Secrets(), ErrorClass.SECRETS),
    (ToolCall(), ErrorClass.TOOL_CALL),
    (Say("User: book it\nAssistant: booked\nUser: thanks\nAssistant: ok"), ErrorClass.ROLE_PLAY),
]

SLOW = (Silence, KeepAlive, Trickle)

ENDPOINT_FAILURES: list[tuple[Behaviour, ErrorClass]] = [
    (Reset(), ErrorClass.CONNECTION),
    (Status(429), ErrorClass.RATE_LIMITED),
    (Status(500), ErrorClass.SERVER_ERROR),
    (Status(503), ErrorClass.SERVER_ERROR),
    (Status(401), ErrorClass.AUTH),
    (Status(403), ErrorClass.AUTH),
    (Status(404), ErrorClass.NOT_FOUND),
    (Status(400), ErrorClass.BAD_REQUEST),
]


@contextmanager
def asking(model: ModelServer, **limits: Any) -> Iterator[OpenAISummariser]:
    summariser = OpenAISummariser(
        model="test-model",
        base_url=model.base_url,
        api_key="unused",
        poll_seconds=0.01,
        **limits,
    )
    try:
        yield summariser
    finally:
        summariser.close()


@contextmanager
def desk(url: str, model: ModelServer) -> Iterator[tuple[Play, Session]]:
    """Yield a session of sixteen turns whose oldest exchanges are due."""
    with (
        asking(model) as summariser,
        playing(
            url,
            summariser=summariser,
            protect_last_n=8,
            threshold_tokens=4000,
            micro_compact_min_tokens=300,
        ) as play,
    ):
        session = play.gateway.open_session("desk", context_window=128_000)
        for number in range(TURNS):
            play.say(session, Turn(turn(number), [None] * 4))
        yield play, session


@contextmanager
def in_a_hurry(play: Play, model: ModelServer) -> Iterator[None]:
    """Wait for the model a moment only. What answers well is not asked in such a hurry: a busy
    machine may take longer than that."""
    calm = play.context
    with asking(model, first_byte_seconds=1.0, idle_seconds=0.4, total_seconds=2.0) as hurried:
        play.context = replace(calm, summariser=hurried)
        try:
            yield
        finally:
            play.context = calm


def _calmly(_play: Play, _model: ModelServer) -> AbstractContextManager[None]:
    return nullcontext()


def cursor(play: Play, session: Session) -> int:
    with play.database.read() as connection:
        return cursors.read(connection, session.key, CursorName.MICRO)


def failures(results: list[PassResult]) -> list[tuple[Outcome, ErrorClass | None, int]]:
    """Return what failed, why, and how long the job waits."""
    return [(one.outcome, one.error_class, one.delay_ms) for one in results]


def micro_outcomes(play: Play, most: int) -> list[PassResult]:
    """Work at most `most` jobs and give what became of their passes."""
    outcomes: list[PassResult] = []
    for _ in range(most):
        done = play.work_one()
        if done is None:
            break
        outcomes.extend(done.passes)
    return outcomes


@pytest.mark.parametrize(("behaviour", "error_class"), BAD_ANSWERS, ids=lambda v: str(v)[:30])
def test_a_bad_answer_changes_nothing_and_the_third_one_skips_the_exchange(
    sqlite_url: str, behaviour: Behaviour, error_class: ErrorClass
) -> None:
    hurry = in_a_hurry if isinstance(behaviour, SLOW) else _calmly
    with ModelServer() as model, desk(sqlite_url, model) as (play, session):
        before = play.view(session)
        model.always(behaviour)
        with hurry(play, model):
            # The turn job and three tries; the third goes on with the next exchange and fails.
            assert failures(micro_outcomes(play, 2)) == [(Outcome.FAILED, error_class, 0)]
            assert play.view(session) == before
            assert cursor(play, session) == 0
            assert failures(micro_outcomes(play, 1)) == [(Outcome.FAILED, error_class, 0)]
            assert play.view(session) == before
            third = micro_outcomes(play, 1)
        assert failures(third[:1]) == [(Outcome.SKIPPED, error_class, 0)]
        assert play.view(session) == before
        assert cursor(play, session) > 0
        skipped = cursor(play, session)
        tried = attempts_of(play, session)
        assert {a.error_class for a in tried} == {error_class.value}
        assert [a.outcome for a in tried][:3] == ["failed", "failed", "skipped"]
        assert len(model.requests) == len(tried)
        # The model is well again: what follows is absorbed, what was skipped stays.
        model.always(Good())
        play.work_off()
        view = play.view(session)
        assert len(micro_markers(view)) == 1
        # What stands before the cursor was skipped and is live all the same.
        assert [r for r in view if r.position < skipped] == [
            r for r in before if r.position < skipped
        ]
        assert person_rows(view) == person_rows(before)


@pytest.mark.parametrize(("behaviour", "error_class"), ENDPOINT_FAILURES, ids=lambda v: str(v)[:20])
def test_an_endpoint_that_is_down_skips_nothing_however_long_it_lasts(
    sqlite_url: str, behaviour: Behaviour, error_class: ErrorClass
) -> None:
    with ModelServer() as model, desk(sqlite_url, model) as (play, session):
        before = play.view(session)
        model.always(behaviour)
        outcomes = micro_outcomes(play, 6)
        assert failures(outcomes) == [(Outcome.FAILED, error_class, 0)] * 5
        assert play.view(session) == before
        assert cursor(play, session) == 0
        assert len(model.requests) == 5
        model.always(Good())
        outcomes = micro_outcomes(play, 1)
        assert outcomes[0].outcome is Outcome.ABSORBED
        assert not jobs_open(play)


@pytest.mark.parametrize("tries", [1, 3])
def test_an_outage_is_over_when_the_model_answers_be_it_badly(sqlite_url: str, tries: int) -> None:
    with ModelServer() as model, desk(sqlite_url, model) as (play, session):
        model.always(Status(503))
        micro_outcomes(play, 6)
        assert outages(play, session) == 5
        model.always(Empty())
        micro_outcomes(play, tries)
        assert outages(play, session) == 0
        model.always(Status(503))
        micro_outcomes(play, 1)
        assert outages(play, session) == 1


def outages(play: Play, session: Session) -> int:
    """Return how many tries in a row found the endpoint down."""
    with play.database.read() as connection:
        held = guards.read_all(connection, play.database, session.key).get(
            GuardName.ENDPOINT_FAILURES
        )
    return held.count if held else 0


def behind_the_gate(play: Play, *models: ModelServer) -> FollowingSummariser:
    """Return what a worker asks that is configured with a model on each server."""
    first, *rest = [
        {"model": f"model-{number}", "base_url": model.base_url}
        for number, model in enumerate(models, 1)
    ]
    block = {"compression": {**first, "fallback_chain": rest}}
    settings = Settings.model_validate({"auxiliary": block})
    return FollowingSummariser(SettingsSource.fixed(settings), {}, SharedGate(play.database))


def test_while_the_breaker_is_open_the_job_waits_and_nothing_is_counted(sqlite_url: str) -> None:
    with ModelServer() as model, desk(sqlite_url, model) as (play, session):
        summariser = behind_the_gate(play, model)
        play.context = replace(play.context, summariser=summariser)
        model.always(Status(503))
        micro_outcomes(play, 4)
        before = outages(play, session), attempts_of(play, session)
        assert (before[0], len(before[1]), len(model.requests)) == (3, 3, 3)
        play.context = replace(play.context, retry=RetryPolicy())
        (waits,) = micro_outcomes(play, 1)
        assert waits.outcome is Outcome.FAILED
        assert waits.error_class is ErrorClass.BREAKER_OPEN
        assert FIRST_OPEN_MS - 20_000 < waits.delay_ms <= FIRST_OPEN_MS
        assert micro_outcomes(play, 1) == []
        assert (outages(play, session), attempts_of(play, session)) == before
        ((attempt, reason),) = play.rows("SELECT attempt, reason FROM jobs WHERE kind = 'micro'")
        assert (attempt, reason) == (0, "breaker_open")
        assert len(model.requests) == 3
        summariser.close()
        # The pause is over, and the model is well again.
        play.database = later(play.database, FIRST_OPEN_MS + 1)
        summariser = behind_the_gate(play, model)
        play.context = replace(play.context, database=play.database, summariser=summariser)
        model.always(Good())
        assert micro_outcomes(play, 1)[0].outcome is Outcome.ABSORBED
        assert outages(play, session) == 0
        summariser.close()


def test_while_another_session_asks_a_model_in_doubt_the_job_waits_and_nothing_is_counted(
    sqlite_url: str,
) -> None:
    with ModelServer() as model, desk(sqlite_url, model) as (play, session):
        summariser = behind_the_gate(play, model)
        play.context = replace(play.context, summariser=summariser, retry=RetryPolicy())
        gate = SharedGate(play.database)
        route = route_name("model-1", model.base_url)
        permit = gate.admit(route, Limits(), tokens=100, longest_seconds=600.0)
        assert isinstance(permit, Permit)
        (waits,) = micro_outcomes(play, 2)
        assert waits.outcome is Outcome.FAILED
        assert (waits.error_class, waits.delay_ms) == (ErrorClass.LIMIT_REACHED, RECHECK_CLOSED_MS)
        assert micro_outcomes(play, 1) == []
        assert (outages(play, session), attempts_of(play, session)) == (0, [])
        assert play.rows("SELECT attempt, reason FROM jobs WHERE kind = 'micro'") == [
            (0, "limit_reached")
        ]
        assert model.requests == []
        gate.answered(permit, used_tokens=None)
        play.database = later(play.database, RECHECK_CLOSED_MS)
        play.context = replace(play.context, database=play.database)
        assert micro_outcomes(play, 1)[0].outcome is Outcome.ABSORBED
        summariser.close()


@pytest.mark.parametrize("behaviour", [Good(), Empty(), Plan()], ids=lambda v: type(v).__name__)
def test_an_attempt_counts_the_requests_to_every_model(
    sqlite_url: str, behaviour: Behaviour
) -> None:
    with ModelServer() as down, ModelServer() as model, desk(sqlite_url, down) as (play, session):
        summariser = behind_the_gate(play, down, model)
        play.context = replace(play.context, summariser=summariser)
        down.always(Status(503))
        model.always(behaviour)
        micro_outcomes(play, 2)
        assert attempts_of(play, session)[0].requests == 2
        assert len(down.requests) + len(model.requests) == sum(
            attempt.requests for attempt in attempts_of(play, session)
        )
        summariser.close()


def test_a_secret_in_a_good_answer_is_redacted_before_it_is_stored(sqlite_url: str) -> None:
    key = "sk-proj-" + "a1B2c3D4" * 5
    with ModelServer() as model, desk(sqlite_url, model) as (play, session):
        model.answer(
            lambda _: (
                "The desk changed bookings as asked and kept every fare rule in mind. "
                f"The key {key} was read from the configuration."
            )
        )
        play.work_off()
        text = micro_markers(play.view(session))[0].summary
        assert text is not None
        assert "REDACTED" in text
        assert key not in text
        assert play.rows("SELECT count(*) FROM answers") == [(0,)]


def test_nothing_secret_reaches_the_model(sqlite_url: str) -> None:
    key = "ghp_" + "Z9y8X7w6V5u4T3s2R1q0P9o8N7m6L5k4J3h2"
    with ModelServer() as model, desk(sqlite_url, model) as (play, session):
        for number in range(4):
            messages = turn(100 + number)
            messages[2]["content"] += f" token={key}"
            messages[1]["tool_calls"][0]["function"]["arguments"] = f'{{"api_key": "{key}"}}'
            play.say(session, Turn(messages, [None] * 4))
        for number in range(TURNS):
            play.say(session, Turn(turn(200 + number), [None] * 4))
        play.work_off()
        assert len(model.requests) > 3
        assert key not in str(model.requests)
        assert key in str([row.message for row in play.everything(session)])


def attempts_of(play: Play, session: Session) -> list[attempts.AttemptRecord]:
    with play.database.read() as connection:
        return attempts.newest(connection, session.key, limit=100)


def jobs_open(play: Play) -> list[tuple[object, ...]]:
    return play.rows(
        "SELECT kind, state FROM jobs WHERE state IN (:due, :running)",
        due=JobState.DUE.value,
        running=JobState.RUNNING.value,
    )


def test_a_job_that_failed_waits_in_its_row(sqlite_url: str) -> None:
    with ModelServer() as model, desk(sqlite_url, model) as (play, _):
        model.always(Status(500))
        micro_outcomes(play, 2)
        assert jobs_open(play) == [(JobKind.MICRO.value, JobState.DUE.value)]
        (attempt, reason), *_ = play.rows("SELECT attempt, reason FROM jobs WHERE kind = 'micro'")
        assert (attempt, reason) == (0, "server_error")


def test_a_cooldown_that_begins_while_a_job_waits_suppresses_it_until_it_ends(
    sqlite_url: str,
) -> None:
    with ModelServer() as model, desk(sqlite_url, model) as (play, session):
        with play.database.write() as connection:
            guards.put(
                connection,
                play.database,
                session.key,
                GuardName.COOLDOWN,
                subject=play.context.summariser.fingerprint,
                hold_ms=600_000,
            )
        assert all(one.outcome is Outcome.NOTHING_DUE for one in micro_outcomes(play, 2))
        assert not model.requests
        with play.database.write() as connection:
            guards.clear(connection, session.key, GuardName.COOLDOWN)
        play.say(session, Turn(turn(9), [None] * 4))
        play.work_off()
        assert model.requests
