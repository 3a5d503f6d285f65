"""Cooldown and anti-thrash by the clock: no automatic pass loops."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from storage import guards
from storage.engine import Database
from storage.guards import GuardName
from storage.outcomes import Outcome
from tests.support.model.behaviours import Silence
from tests.support.model.server import ModelServer
from tests.support.sessions.stored_session import StoredSession
from tests.support.workers.batch_steps import (
    AUTOMATIC,
    BYPASSING,
    SQLITE,
    about,
    fail,
    loud_signals,
    outcome,
    until,
)
from tests.support.workers.workplace import Workplace, desk, say
from workers.policy.triggers import Trigger
from workers.summariser.contract import ErrorClass


@pytest.fixture
def place(database: Database, model: ModelServer) -> Iterator[Workplace]:
    """Yield the airline desk after ten turns; everything is done by processes that have just
    started."""
    with Workplace(desk(database, turns=10), model.base_url, restarts=True) as one:
        yield one


# Cooldown


@pytest.mark.parametrize(
    ("trigger", "ms"),
    [(Trigger.AFTER_RESPONSE, 600_000), (Trigger.HYGIENE_TOKENS, 300_000)],
)
def test_automatic_passes_rest_after_the_last_failed_attempt_on_every_host(
    trigger: Trigger, ms: int, place: Workplace, model: ModelServer
) -> None:
    place.configure(abort_on_summary_failure=True)
    assert fail(place, model, trigger).outcome is Outcome.GAVE_UP
    asked = len(model.requests)
    place.pass_by(ms - 20_000)
    for automatic in AUTOMATIC:
        held = outcome(place, automatic)
        assert (held.outcome, held.reason) == (
            Outcome.SUPPRESSED,
            "cooldown after a failure (auth)",
        )
    assert len(model.requests) == asked
    place.pass_by(20_000)
    assert outcome(place, Trigger.AFTER_RESPONSE).outcome is Outcome.COMPACTED
    assert set(place.guards()) == set()


@SQLITE
@pytest.mark.parametrize("trigger", BYPASSING)
def test_a_pass_that_bypasses_the_guards_does_not_wait_for_the_cooldown_and_success_ends_it(
    trigger: Trigger, place: Workplace, model: ModelServer
) -> None:
    place.configure(abort_on_summary_failure=True)
    fail(place, model)
    assert outcome(place, trigger).outcome is Outcome.COMPACTED
    assert GuardName.COOLDOWN not in place.guards()


def test_a_person_who_asks_ends_cooldown_and_lock(place: Workplace, model: ModelServer) -> None:
    place.configure(abort_on_summary_failure=True)
    fail(place, model)
    with place.now.write() as connection:
        key = place.session.key
        guards.put(connection, place.now, key, GuardName.POOR_PASSES, count=2, hold_ms=300_000)
    with place.gateway() as gateway:
        gateway.compact("s")
    assert set(place.guards()) == set()


def test_another_summariser_is_not_blocked_by_the_failure_of_the_former(
    place: Workplace, model: ModelServer
) -> None:
    place.configure(abort_on_summary_failure=True)
    fail(place, model)
    assert outcome(place, Trigger.AFTER_RESPONSE).outcome is Outcome.SUPPRESSED
    # A longer time limit makes no other summariser, another model does.
    place.configure(endpoint={"timeout": 200.0})
    assert outcome(place, Trigger.AFTER_RESPONSE).outcome is Outcome.SUPPRESSED
    place.configure(endpoint={"model": "other"})
    assert outcome(place, Trigger.AFTER_RESPONSE).outcome is Outcome.COMPACTED


def test_a_cooldown_is_never_shortened_by_a_later_failure(
    place: Workplace, model: ModelServer
) -> None:
    place.configure(abort_on_summary_failure=True)
    fail(place, model, Trigger.MANUAL)
    assert until(place) == about(600_000)
    place.pass_by(100_000)
    # A hygiene pass that fails asks for five minutes only.
    fail(place, model, Trigger.HYGIENE_COUNT)
    assert until(place) == about(500_000)
    place.pass_by(400_000)
    say(place.session, range(20, 26))
    fail(place, model, Trigger.HYGIENE_COUNT)
    assert until(place) == about(300_000)


@SQLITE
def test_no_cooldown_is_set_where_it_is_configured_to_be_none(
    place: Workplace, model: ModelServer
) -> None:
    place.configure(abort_on_summary_failure=True, failure_cooldown_seconds=0)
    assert fail(place, model).outcome is Outcome.GAVE_UP
    assert GuardName.COOLDOWN not in place.guards()
    assert outcome(place, Trigger.AFTER_RESPONSE).outcome is Outcome.COMPACTED


@SQLITE
def test_hygiene_waits_for_less_silence_than_other_passes(
    place: Workplace, model: ModelServer
) -> None:
    place.configure(hygiene_timeout_seconds=0.15, summary_attempts=1)
    model.fail_next(Silence(chunks=1))
    failed = outcome(place, Trigger.HYGIENE_TOKENS)
    assert failed.outcome is Outcome.PLACEHOLDER
    assert place.tries()[0].error_class == ErrorClass.IDLE_TIMEOUT
    assert place.tries()[0].total_ms < 60_000  # others wait for two minutes
    assert until(place) == about(300_000)


# Anti-thrash


@pytest.fixture
def full(database: Database, model: ModelServer) -> Iterator[Workplace]:
    """Yield a desk whose tail takes most of it, so that a pass over one more turn hardly saves."""
    with Workplace(
        desk(database), model.base_url, restarts=True, compression={"threshold_tokens": 25_000}
    ) as one:
        yield one


def poor_pass(place: Workplace, number: int, trigger: Trigger = Trigger.AFTER_RESPONSE) -> None:
    say(place.session, [number])
    done = outcome(place, trigger)
    assert done.outcome is Outcome.COMPACTED
    assert done.tokens_after >= 0.9 * done.tokens_before


def good_pass(place: Workplace, first: int, trigger: Trigger = Trigger.AFTER_RESPONSE) -> None:
    say(place.session, range(first, first + 12))
    done = outcome(place, trigger)
    assert done.outcome is Outcome.COMPACTED
    assert done.tokens_after < 0.9 * done.tokens_before


def test_two_poor_passes_lock_automatic_ones_and_one_probe_at_a_time_finds_out(
    full: Workplace, model: ModelServer
) -> None:
    poor_pass(full, 20)
    assert full.guards()[GuardName.POOR_PASSES].until_at is None
    poor_pass(full, 21)
    assert until(full, GuardName.POOR_PASSES) == about(300_000)
    say(full.session, [22])
    for trigger in AUTOMATIC:
        if trigger is not Trigger.HYGIENE_TOKENS:
            held = outcome(full, trigger)
            assert (held.outcome, held.reason) == (
                Outcome.SUPPRESSED,
                "the last 2 passes hardly saved anything",
            )
    full.pass_by(300_000)
    probe = outcome(full, Trigger.PREFLIGHT)
    assert probe.outcome is Outcome.COMPACTED
    assert full.guards()[GuardName.POOR_PASSES].count == 3
    assert until(full, GuardName.POOR_PASSES) == about(300_000)
    assert outcome(full, Trigger.PREFLIGHT).outcome is Outcome.SUPPRESSED
    full.pass_by(300_000)
    good_pass(full, 30)
    assert GuardName.POOR_PASSES not in full.guards()
    poor_pass(full, 50)
    assert until(full, GuardName.POOR_PASSES) == 0


@SQLITE
def test_a_good_pass_between_two_poor_ones_begins_the_count_anew(full: Workplace) -> None:
    poor_pass(full, 20)
    good_pass(full, 30)
    poor_pass(full, 50)
    assert until(full, GuardName.POOR_PASSES) == 0
    poor_pass(full, 51)
    assert until(full, GuardName.POOR_PASSES) == about(300_000)


@SQLITE
def test_only_completed_automatic_passes_count_as_poor(full: Workplace, model: ModelServer) -> None:
    poor_pass(full, 20)
    poor_pass(full, 21, Trigger.MANUAL)
    assert outcome(full, Trigger.MANUAL, up_to=2).outcome is Outcome.NOTHING_DUE
    full.configure(abort_on_summary_failure=True)
    say(full.session, [22])
    assert fail(full, model, Trigger.CONTEXT_OVERFLOW).outcome is Outcome.GAVE_UP
    full.configure(abort_on_summary_failure=False)
    assert fail(full, model, Trigger.CONTEXT_OVERFLOW).outcome is Outcome.PLACEHOLDER
    full.pass_by(full.wait_ms())
    assert [one.outcome for one in full.work()] == [Outcome.PLACEHOLDER_REPLACED]
    assert full.guards()[GuardName.POOR_PASSES].count == 1
    full.pass_by(600_000)
    poor_pass(full, 23)
    assert full.guards()[GuardName.POOR_PASSES].count == 2


@SQLITE
def test_the_lock_suppresses_neither_hygiene_nor_passes_that_bypass_the_guards(
    full: Workplace,
) -> None:
    poor_pass(full, 20)
    poor_pass(full, 21)
    for number, trigger in enumerate([Trigger.HYGIENE_TOKENS, *BYPASSING], 30):
        say(full.session, [number])
        assert outcome(full, trigger).outcome is Outcome.COMPACTED


def test_a_poor_pass_over_the_threshold_signals_that_a_new_session_is_due(
    database: Database, model: ModelServer
) -> None:
    session = StoredSession.create(database, context_window=128_000, model="m")
    session.append([{"role": "user", "content": "The first request is never compacted. " * 1_000}])
    say(session, range(6))
    with Workplace(session, model.base_url) as place:
        done = outcome(place, Trigger.MANUAL)
        assert done.outcome is Outcome.COMPACTED
        assert done.tokens_after >= 0.9 * done.tokens_before
        assert loud_signals(place) == ["compression_stuck"]
        (stuck, _) = place.signals()
        assert "start a new one" in stuck.facts["sentence"]
        assert stuck.facts["tokens_after"] == done.tokens_after
        # Where a person chose a part, or there is room, nobody is sent away.
        say(session, range(20, 24))
        assert outcome(place, Trigger.MANUAL, keep_last=2).outcome is Outcome.COMPACTED
        place.configure(threshold_tokens=20_000)
        say(session, range(30, 44))
        assert outcome(place, Trigger.MANUAL).outcome is Outcome.COMPACTED
        assert loud_signals(place) == ["compression_stuck"]
