"""The last ways out: reset, and the count valve with everything down."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from storage import guards
from storage.engine import Database
from storage.guards import GuardName
from storage.jobs import JobKind
from storage.outcomes import Outcome
from tests.support.model.server import ModelServer
from tests.support.sessions.conversations import turn
from tests.support.sessions.gateways import rows_of
from tests.support.sessions.stored_session import StoredSession
from tests.support.workers.batch_steps import (
    SQLITE,
    fail,
    loud_signals,
    markers,
    open_breaker,
    outcome,
    summaries,
    until,
)
from tests.support.workers.workplace import Workplace, desk, say
from workers.policy.triggers import Trigger

# Exhausted


@pytest.fixture
def brimful(database: Database, model: ModelServer) -> Iterator[Workplace]:
    """Yield a desk whose 3,450 tokens are more than 85 % of its window, and failures that abort."""
    with Workplace(
        desk(database, turns=10, context_window=3_800),
        model.base_url,
        restarts=True,
        compression={"threshold_tokens": 2_000, "abort_on_summary_failure": True},
    ) as one:
        yield one


def failures(place: Workplace) -> int:
    guard = place.guards().get(GuardName.BATCH_FAILURES)
    return guard.count if guard else 0


def test_three_failed_jobs_in_a_full_window_end_in_a_reset(
    brimful: Workplace, model: ModelServer
) -> None:
    before = brimful.view()
    for count in (1, 2):
        assert fail(brimful, model).outcome is Outcome.GAVE_UP
        assert failures(brimful) == count
        assert brimful.view() == before
        brimful.pass_by(600_000)
    done = fail(brimful, model)
    assert done.outcome is Outcome.RESET
    view = brimful.view()
    # Head, marker, newest request, its final answer.
    assert [row.position for row in view] == [0, 1, 2, 36, 38, 39]
    (marker,) = markers(brimful)
    assert marker.summary is not None
    assert "set aside without a summary" in marker.summary
    assert set(brimful.guards()) == set()
    assert loud_signals(brimful) == ["compression_exhausted", "session_reset"]
    assert brimful.job() is None
    assert brimful.everything() == [row.message for row in before]
    # Nothing is lost, and the next pass is a plain one once the breaker lets somebody ask.
    brimful.pass_by(60_000)
    say(brimful.session, range(50, 58))
    assert outcome(brimful, Trigger.AFTER_RESPONSE).outcome is Outcome.COMPACTED


def test_a_reset_can_be_undone(brimful: Workplace, model: ModelServer) -> None:
    before, counted = brimful.view(), brimful.session.counted()
    for _ in range(3):
        fail(brimful, model, Trigger.MANUAL)
    assert summaries(brimful) == [("reset", "live")]
    brimful.session.undo()
    assert brimful.view() == before
    assert brimful.session.counted() == counted == brimful.session.live_rows()


def test_a_reset_shows_the_last_good_summary_and_leaves_system_messages_and_open_groups(
    brimful: Workplace, model: ModelServer
) -> None:
    assert outcome(brimful, Trigger.MANUAL).outcome is Outcome.COMPACTED
    (good,) = markers(brimful)
    brimful.session.append([{"role": "system", "content": "From now on answer in French."}])
    say(brimful.session, range(20, 26))
    # A pass that failed has left a placeholder, which is no good summary.
    brimful.configure(abort_on_summary_failure=False)
    fail(brimful, model, Trigger.MANUAL)
    brimful.configure(abort_on_summary_failure=True)
    say(brimful.session, range(30, 38))
    brimful.session.append(turn(40, tools=2)[:-2], closes_turn=False)
    before = brimful.view()
    for _ in range(3):
        last = fail(brimful, model, Trigger.CONTEXT_OVERFLOW)
    assert last.outcome is Outcome.RESET
    view = brimful.view()
    (marker,) = markers(brimful)
    assert marker.summary == good.summary
    assert marker.verbatim == good.verbatim
    assert any(row.role == "system" for row in view)
    # Of the newest turn: its request and the call that waits.
    newest = [row for row in view if row.position >= before[-4].position and not row.kind.is_marker]
    assert [row.role for row in newest] == ["user", "assistant"]
    assert newest[-1] == before[-1]


@SQLITE
def test_failures_below_85_percent_of_the_window_or_between_successes_are_not_counted(
    brimful: Workplace, model: ModelServer
) -> None:
    fail(brimful, model, Trigger.MANUAL)
    fail(brimful, model, Trigger.MANUAL)
    assert failures(brimful) == 2
    assert outcome(brimful, Trigger.MANUAL).outcome is Outcome.COMPACTED
    assert failures(brimful) == 0
    say(brimful.session, range(20, 24))
    fail(brimful, model, Trigger.MANUAL)
    assert failures(brimful) == 0
    # Nor does what was counted before last, once there is room again.
    say(brimful.session, range(30, 36))
    fail(brimful, model, Trigger.MANUAL)
    fail(brimful, model, Trigger.MANUAL)
    assert failures(brimful) == 2
    with brimful.gateway() as gateway:
        gateway.set_model("s", "another", context_window=128_000)
    fail(brimful, model, Trigger.MANUAL)
    assert failures(brimful) == 0
    assert loud_signals(brimful) == []


@SQLITE
def test_a_placeholder_that_makes_room_is_no_step_towards_a_reset(
    brimful: Workplace, model: ModelServer
) -> None:
    brimful.configure(abort_on_summary_failure=False)
    fail(brimful, model, Trigger.MANUAL)
    assert failures(brimful) == 0


# The count valve


@pytest.mark.parametrize(
    ("lasting_database", "state"),
    [("sqlite", "cooling"), ("sqlite", "breaker-open"), ("postgresql", "fresh")],
    indirect=["lasting_database"],
)
def test_five_thousand_messages_shrink_at_once_with_model_and_network_down(
    state: str, database: Database, model: ModelServer
) -> None:
    session = StoredSession.create(database, context_window=1_000_000, model="m")
    said = [message for number in range(1_250) for message in turn(number, words=10)]
    session.append(said)
    nobody = "http://127.0.0.1:9/v1"
    with Workplace(
        session, nobody, restarts=True, compression={"abort_on_summary_failure": True}
    ) as place:
        if state == "cooling":
            with place.now.write() as connection:
                guards.put(connection, place.now, session.key, GuardName.COOLDOWN, hold_ms=600_000)
        if state == "breaker-open":
            open_breaker(place)
        session.enqueue(JobKind.TURN)
        assert place.work() == []  # the turn job
        job = place.job()
        assert job is not None
        assert job.trigger == Trigger.HYGIENE_COUNT
        (done,) = place.work()
        assert done.outcome is Outcome.PLACEHOLDER
        failed, placeholder = place.tries()
        asked = 0 if state == "breaker-open" else 1
        assert (failed.outcome, failed.requests) == ("failed", asked)
        assert (placeholder.outcome, placeholder.messages_before) == ("placeholder", 5_000)
        assert placeholder.requests == 0
        assert placeholder.messages_after < 100
        assert session.counted() == session.live_rows()
        assert place.everything() == said
        (archived,) = rows_of(
            database,
            "SELECT count(*) FROM messages JOIN summaries ON summaries.id = absorbed_by "
            "WHERE summaries.kind = 'placeholder'",
        )
        assert archived == (5_000 - (placeholder.messages_after - 1),)
        assert until(place) >= 290_000
