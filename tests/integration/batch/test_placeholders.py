"""A placeholder is shown until the model answers again: nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from storage.engine import Database
from storage.guards import GuardName
from storage.outcomes import Outcome
from tests.support.model.behaviours import Good, Status
from tests.support.model.server import ModelServer
from tests.support.workers.batch_steps import (
    SQLITE,
    fail,
    markers,
    outcome,
    prompts,
    summaries,
    until,
)
from tests.support.workers.workplace import SLACK_MS, Workplace, desk, padded, say
from workers.policy.triggers import Trigger


@pytest.fixture
def place(database: Database, model: ModelServer) -> Iterator[Workplace]:
    """Yield the airline desk after ten turns; everything is done by processes that have just
    started."""
    with Workplace(desk(database, turns=10), model.base_url, restarts=True) as one:
        yield one


def test_a_placeholder_waits_for_its_real_summary_for_as_long_as_it_takes(
    place: Workplace, model: ModelServer
) -> None:
    failed = fail(place, model)
    assert failed.outcome is Outcome.PLACEHOLDER
    view, held = place.view(), until(place)
    model.always(Status(503))
    asked, waits = len(model.requests), []
    for _ in range(6):
        waits.append(place.wait_ms())
        place.pass_by(waits[-1])
        (again,) = place.work()
        assert again.outcome is Outcome.FAILED
        job = place.job()
        assert job is not None
        assert (job.trigger, job.state.value) == (Trigger.REPLACE_PLACEHOLDER, "due")
        # An open breaker keeps some of them from asking.
        assert job.tries == len(model.requests) - asked
    assert waits[0] == pytest.approx(30_000, abs=SLACK_MS)
    assert max(waits) <= 600_000 + SLACK_MS
    # Nothing of it counts against the session.
    assert place.view() == view
    assert until(place) <= held
    assert GuardName.BATCH_FAILURES not in place.guards()
    model.always(Good())
    while (job := place.job()) is not None:
        place.pass_by(max(0, job.run_at - place.time()))
        place.work()
    assert summaries(place) == [("placeholder", "superseded"), ("placeholder_replaced", "live")]


def test_a_real_summary_may_be_larger_than_the_placeholder_and_is_made_of_the_originals(
    place: Workplace, model: ModelServer
) -> None:
    fail(place, model)
    (placeholder,) = markers(place)
    before = place.view()
    model.answer(padded(placeholder.tokens + 100))
    place.pass_by(place.wait_ms())
    (replaced,) = place.work()
    assert replaced.outcome is Outcome.PLACEHOLDER_REPLACED
    assert replaced.tokens_after > replaced.tokens_before
    (real,) = markers(place)
    assert (real.id, real.position) == (placeholder.id, placeholder.position)
    assert real.verbatim == placeholder.verbatim
    assert [row for row in place.view() if row != real] == [
        row for row in before if row != placeholder
    ]
    assert place.session.counted() == place.session.live_rows()
    prompt = prompts(model)[-1]
    assert "Result 3.0" in prompt
    assert placeholder.summary is not None
    assert placeholder.summary.splitlines()[0] not in prompt
    # Exempt from stuck and anti-thrash; a success ends the cooldown.
    assert set(place.guards()) == set()
    kinds = {one.kind.value for one in place.signals()}
    assert "compression_stuck" not in kinds
    assert "placeholder_replaced" in kinds


def test_undoing_a_replacement_brings_back_the_placeholder_and_then_the_originals(
    place: Workplace, model: ModelServer
) -> None:
    original = place.view()
    fail(place, model)
    placeholder = place.view()
    place.pass_by(place.wait_ms())
    place.work()
    replaced = place.view()
    assert replaced != placeholder
    assert place.session.undo() is not None
    assert place.view() == placeholder
    assert place.session.counted() == place.session.live_rows()
    assert place.session.undo() is not None
    assert place.view() == original
    assert place.session.counted() == place.session.live_rows()
    assert place.session.undo() is None


def test_a_pass_over_a_placeholder_reads_its_originals_and_not_its_text(
    place: Workplace, model: ModelServer
) -> None:
    assert outcome(place, Trigger.AFTER_RESPONSE).outcome is Outcome.COMPACTED
    (good,) = markers(place)
    say(place.session, range(20, 26))
    fail(place, model, Trigger.MANUAL)
    (placeholder,) = markers(place)
    say(place.session, range(30, 36))
    done = outcome(place, Trigger.MANUAL)
    assert done.outcome is Outcome.COMPACTED
    prompt = prompts(model)[-1]
    assert good.summary is not None
    assert good.summary in prompt
    assert "Result 20.0" in prompt
    assert "Result 31.0" in prompt
    assert "Result 3.0" not in prompt
    assert placeholder.summary is not None
    assert placeholder.summary.splitlines()[0] not in prompt
    assert summaries(place) == [
        ("batch", "superseded"),
        ("placeholder", "superseded"),
        ("batch", "live"),
    ]
    assert place.job() is None


@pytest.mark.parametrize("trigger", [Trigger.AFTER_RESPONSE, Trigger.MANUAL])
def test_a_pass_that_changes_nothing_leaves_the_placeholder_to_be_replaced(
    trigger: Trigger, place: Workplace, model: ModelServer
) -> None:
    fail(place, model)
    # Suppressed by the cooldown, or nothing to compact.
    assert outcome(place, trigger).outcome in (Outcome.SUPPRESSED, Outcome.NOTHING_DUE)
    job = place.job()
    assert job is not None
    assert (job.trigger, job.state.value) == (Trigger.REPLACE_PLACEHOLDER, "due")
    place.pass_by(place.wait_ms())
    assert [one.outcome for one in place.work()] == [Outcome.PLACEHOLDER_REPLACED]
    assert place.job() is None


@SQLITE
def test_no_placeholder_is_replaced_while_compaction_is_switched_off(
    place: Workplace, model: ModelServer
) -> None:
    fail(place, model)
    place.configure(enabled=False)
    place.pass_by(place.wait_ms())
    assert [one.outcome for one in place.work()] == [Outcome.SUPPRESSED]
    place.configure(enabled=True)
    place.pass_by(place.wait_ms())
    assert [one.outcome for one in place.work()] == [Outcome.PLACEHOLDER_REPLACED]


def test_a_placeholder_that_an_undo_brings_back_is_replaced_after_the_next_turn(
    place: Workplace, model: ModelServer
) -> None:
    fail(place, model)
    place.pass_by(place.wait_ms())
    place.work()
    assert place.job() is None
    with place.gateway() as gateway:
        gateway.undo("s")
    place.pass_by(place.wait_ms())
    assert [one.outcome for one in place.work()] == [Outcome.SUPPRESSED]
    say(place.session, [20])
    place.pass_by(place.wait_ms())
    assert [one.outcome for one in place.work()] == [Outcome.PLACEHOLDER_REPLACED]


def test_an_undone_placeholder_needs_no_replacement(place: Workplace, model: ModelServer) -> None:
    fail(place, model)
    place.session.undo()
    asked, before = len(model.requests), place.view()
    say(place.session, [20])
    place.pass_by(place.wait_ms())
    assert [one.outcome for one in place.work()] == [Outcome.NOTHING_DUE]
    assert place.job() is None
    assert len(model.requests) == asked
    assert place.view()[: len(before)] == before


def test_gateways_get_a_quiet_signal_for_each_step_unless_they_want_to_hear(
    place: Workplace, model: ModelServer
) -> None:
    fail(place, model)
    ends_at = place.guards()[GuardName.COOLDOWN].until_at
    place.pass_by(place.wait_ms())
    place.work()
    signals = place.signals()
    assert [one.kind.value for one in signals] == [
        "compaction_failed",
        "cooldown",
        "placeholder_in_use",
        "placeholder_replaced",
    ]
    assert all(one.quiet for one in signals)
    assert signals[0].facts == {"error": "auth"}
    assert signals[1].facts == {"error": "auth", "until": ends_at}
    assert signals[2].facts["messages_before"] == 40
    place.configure(progress_notices=True)
    say(place.session, range(20, 26))
    fail(place, model, Trigger.MANUAL)
    assert not any(one.quiet for one in place.signals()[4:])
