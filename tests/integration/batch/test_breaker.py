"""Passes that wait for a model whose breaker is open, or for a running micro job."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event, Thread
from typing import Any

import pytest

from storage import jobs
from storage.conversations import sessions
from storage.conversations.rows import Kind
from storage.engine import Database
from storage.jobs import JobKind
from storage.outcomes import Outcome
from tests.support.model.behaviours import stream_text
from tests.support.model.server import ModelServer
from tests.support.model.turn import Turn
from tests.support.sessions.gateways import rows_of
from tests.support.sessions.stored_session import dump
from tests.support.workers.batch_steps import (
    AUTOMATIC,
    BYPASSING,
    SQLITE,
    markers,
    open_breaker,
    outcome,
    until,
)
from tests.support.workers.workplace import SLACK_MS, Workplace, desk
from workers.policy.triggers import Trigger
from workers.runtime.jobs import Worked, work
from workers.summariser.contract import ErrorClass
from workers.summariser.endpoints import route_name
from workers.summariser.gate import Permit, SharedGate
from workers.summariser.rate_limits import Limits

AT_ONCE = {Trigger.HYGIENE_COUNT, Trigger.REPLACE_PLACEHOLDER}
"""The count valve waits for nothing; replacing has nothing to do here."""


@pytest.fixture
def place(database: Database, model: ModelServer) -> Iterator[Workplace]:
    """Yield the airline desk after ten turns; everything is done by processes that have just
    started."""
    with Workplace(desk(database, turns=10), model.base_url, restarts=True) as one:
        yield one


# Breaker and limits


@SQLITE
@pytest.mark.parametrize("trigger", BYPASSING)
def test_an_open_breaker_is_a_failed_attempt_without_a_request_for_a_pass_that_cannot_wait(
    trigger: Trigger, place: Workplace, model: ModelServer
) -> None:
    open_breaker(place)
    assert outcome(place, trigger).outcome is Outcome.PLACEHOLDER
    assert model.requests == []
    failed, _ = place.tries()
    assert (failed.error_class, failed.requests) == ("breaker_open", 0)
    assert until(place) > 0
    # The real summary comes when the model may be asked again.
    place.pass_by(place.wait_ms())
    assert [one.outcome for one in place.work()] == [Outcome.PLACEHOLDER_REPLACED]


@SQLITE
def test_an_open_breaker_leaves_the_session_unchanged_where_failures_abort(
    place: Workplace, model: ModelServer
) -> None:
    place.configure(abort_on_summary_failure=True)
    open_breaker(place)
    before = place.view()
    assert outcome(place, Trigger.MANUAL).outcome is Outcome.GAVE_UP
    assert place.view() == before
    assert model.requests == []
    assert place.job() is None


@pytest.mark.parametrize("trigger", AUTOMATIC)
@SQLITE
def test_everything_else_waits_for_the_breaker_and_spends_no_attempt(
    trigger: Trigger, place: Workplace, model: ModelServer
) -> None:
    open_breaker(place)
    before = dump(place.database)
    waiting = outcome(place, trigger)
    assert waiting.outcome is Outcome.FAILED
    assert waiting.error_class is ErrorClass.BREAKER_OPEN
    job = place.job()
    assert job is not None
    assert (job.state.value, job.tries, job.attempt) == ("due", 0, 0)
    assert 20_000 < place.wait_ms() <= 30_000 + SLACK_MS
    after = dump(place.database)
    assert {table for table in after if after[table] != before[table]} == {"jobs"}
    assert model.requests == []
    place.pass_by(place.wait_ms())
    assert place.work()[0].outcome is Outcome.COMPACTED
    assert len(model.requests) == 1


@SQLITE
def test_the_count_valve_does_not_wait_for_the_next_minute(
    place: Workplace, model: ModelServer
) -> None:
    place.configure(endpoint={"requests_per_minute": 1}, abort_on_summary_failure=True)
    place.pass_by((30_000 - place.time()) % 60_000)
    other = desk(place.database, turns=10, session_id="other")
    assert outcome(place, Trigger.AFTER_RESPONSE, of=other).outcome is Outcome.COMPACTED
    assert outcome(place, Trigger.HYGIENE_COUNT).outcome is Outcome.PLACEHOLDER
    assert len(model.requests) == 1


@SQLITE
def test_the_count_valve_does_not_wait_while_another_session_asks_a_model_in_doubt(
    place: Workplace, model: ModelServer
) -> None:
    place.configure(abort_on_summary_failure=True)
    route = route_name("test-model", place.model_url)
    permit = SharedGate(place.now).admit(route, Limits(), tokens=100, longest_seconds=600.0)
    assert isinstance(permit, Permit)
    assert outcome(place, Trigger.HYGIENE_COUNT).outcome is Outcome.PLACEHOLDER
    assert model.requests == []


@SQLITE
@pytest.mark.parametrize("trigger", [Trigger.AFTER_RESPONSE, Trigger.MANUAL])
def test_a_minute_that_is_used_up_is_waited_for_by_everyone(
    trigger: Trigger, place: Workplace, model: ModelServer
) -> None:
    place.configure(endpoint={"requests_per_minute": 1})
    place.pass_by((30_000 - place.time()) % 60_000)
    other = desk(place.database, turns=10, session_id="other")
    assert outcome(place, Trigger.AFTER_RESPONSE, of=other).outcome is Outcome.COMPACTED
    waiting = outcome(place, trigger)
    assert waiting.outcome is Outcome.FAILED
    assert waiting.error_class is ErrorClass.LIMIT_REACHED
    assert 0 < place.wait_ms() <= 60_000
    assert len(model.requests) == 1
    place.pass_by(place.wait_ms())
    assert place.work()[0].outcome is Outcome.COMPACTED


@pytest.mark.parametrize("trigger", [one for one in Trigger if one not in AT_ONCE])
@SQLITE
def test_while_another_session_asks_a_model_in_doubt_everyone_waits_two_seconds_at_a_time(
    trigger: Trigger, place: Workplace, model: ModelServer
) -> None:
    gate = SharedGate(place.now)
    route = route_name("test-model", place.model_url)
    permit = gate.admit(route, Limits(), tokens=100, longest_seconds=600.0)
    assert isinstance(permit, Permit)
    place.ask(trigger)
    before = dump(place.database)
    for _ in range(3):
        (waiting,) = place.work()
        assert waiting.outcome is Outcome.FAILED
        assert waiting.error_class is ErrorClass.LIMIT_REACHED
        assert waiting.delay_ms == 2_000
        job = place.job()
        assert job is not None
        assert (job.state.value, job.tries, job.attempt) == ("due", 0, 0)
        assert place.work() == []
        place.pass_by(place.wait_ms())
    after = dump(place.database)
    assert {table for table in after if after[table] != before[table]} == {"jobs"}
    assert model.requests == []
    gate.answered(permit, used_tokens=None)
    assert place.work()[0].outcome is Outcome.COMPACTED
    assert len(model.requests) == 1


@SQLITE
def test_a_caller_that_waits_for_a_model_gets_one_signal_that_the_pass_began(
    place: Workplace,
) -> None:
    place.configure(progress_notices=True)
    open_breaker(place)
    assert outcome(place, Trigger.AFTER_RESPONSE).outcome is Outcome.FAILED
    for _ in range(2):
        place.pass_by(place.wait_ms())
        open_breaker(place)
        place.work()
    place.pass_by(place.wait_ms())
    assert place.work()[0].outcome is Outcome.COMPACTED
    kinds = ["compaction_started", "compaction_finished"]
    assert [signal.kind.value for signal in place.signals()] == kinds


# A running micro job


class Held:
    """An answer that comes when the test lets it."""

    def __init__(self) -> None:
        self.free = Event()

    def play(self, turn: Turn) -> None:
        while not self.free.is_set():
            turn.pause(0.01)
        stream_text(turn, turn.good_answer())


def test_a_person_takes_the_session_away_from_a_running_micro_job(
    database: Database, model: ModelServer
) -> None:
    session, held = desk(database), Held()
    with Workplace(session, model.base_url) as place:
        # Of a model that has never answered, one request at a time is enough.
        outcome(place, Trigger.MANUAL, of=desk(database, session_id="other"))
        model.fail_next(held)
        with place.now.write() as connection:
            micro = session.make_due_in(connection, JobKind.MICRO)
        done: list[Any] = []
        with place.process() as context:
            worker = Thread(target=lambda: done.append(work(context, micro.id)), daemon=True)
            worker.start()
            model.wait_for_requests(2)
            with place.gateway() as gateway:
                gateway.compact("s")
            assert [one.outcome for one in place.work()] == [Outcome.COMPACTED]
            view = place.view()
            held.free.set()
            worker.join(180)
        (late,) = done
        assert isinstance(late, Worked)
        assert [one.outcome for one in late.passes] == [Outcome.HANDED_BACK]
        assert place.view() == view
        assert [row.kind for row in markers(place)] == [Kind.BATCH]
        # The micro job goes on behind the new marker, where nothing is left for it.
        place.work()
        assert place.view() == view
        assert rows_of(database, "SELECT state, count(*) FROM jobs GROUP BY state") == [("done", 3)]


@SQLITE
def test_an_automatic_trigger_waits_for_a_running_micro_job(
    database: Database, model: ModelServer
) -> None:
    session = desk(database)
    with Workplace(session, model.base_url) as place:
        with place.now.write() as connection:
            micro = session.make_due_in(connection, JobKind.MICRO)
        with place.now.write() as connection:
            claim = jobs.claim(
                connection,
                place.now,
                micro.id,
                lease_owner="w",
                lease_ms=60_000,
                deadline_ms=60_000,
            )
        assert claim is not None
        job = place.ask(Trigger.AFTER_RESPONSE)
        with place.process() as context:
            assert not isinstance(work(context, job.id), Worked)
        with place.now.write() as connection:
            sessions.lock(connection, session.key)
            jobs.finish(connection, place.now, claim)
        assert [one.outcome for one in place.work()] == [Outcome.COMPACTED]
