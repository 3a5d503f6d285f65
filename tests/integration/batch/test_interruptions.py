"""Whatever breaks in on a batch pass, or kills its worker: nothing half-done or paid for twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from storage import guards, jobs
from storage.conversations import sessions
from storage.engine import Database
from storage.guards import GuardName
from storage.jobs import JobKind
from storage.outcomes import Outcome
from tests.support.model.behaviours import Good, Status
from tests.support.model.server import ModelServer
from tests.support.sessions.gateways import emptied, rows_of
from tests.support.sessions.stored_session import dump
from tests.support.workers.batch_steps import (
    SQLITE,
    compact,
    markers,
    positions,
    prompts,
)
from tests.support.workers.workplace import (
    Killed,
    Workplace,
    desk,
    padded,
    say,
    stored_rows,
    structured,
)
from workers.policy.triggers import Trigger
from workers.runtime.jobs import Worked, work

pytestmark = pytest.mark.both_databases


@pytest.fixture
def place(database: Database, model: ModelServer) -> Iterator[Workplace]:
    """Yield the airline desk after sixteen turns, 5,510 tokens over a threshold of 4,000."""
    with Workplace(desk(database), model.base_url) as one:
        yield one


Act = Callable[[Workplace], Any]


def between(place: Workplace, point: str, act: Act) -> Callable[[str], None]:
    """Do something when the job reaches a point for the first time."""
    waiting = [act]

    def failpoint(reached: str) -> None:
        if reached == point and waiting:
            waiting.pop()(place)

    return failpoint


def rewind_the_last_turn(place: Workplace) -> Any:
    return place.session.rewind(60)


def change_the_window(place: Workplace) -> Any:
    with place.now.write() as connection:
        sessions.lock(connection, place.session.key)
        return sessions.declare_window(connection, place.session.key, 100_000)


@pytest.mark.parametrize("point", ["planned", "replied", "answered"])
@pytest.mark.parametrize("act", [rewind_the_last_turn, change_the_window])
def test_a_plan_on_another_view_is_stale_and_made_again(
    act: Act, point: str, place: Workplace, model: ModelServer
) -> None:
    place.ask(Trigger.AFTER_RESPONSE)
    first, second = place.work(failpoint=between(place, point, act))
    assert first.outcome is Outcome.STALE
    assert second.outcome is Outcome.COMPACTED
    assert [one.outcome for one in place.tries()] == ["stale", "compacted"]
    assert len(markers(place)) == 1
    assert place.session.counted() == place.session.live_rows()
    # The answer to the same rows is bought once, to others anew.
    assert len(model.requests) == (1 if act is change_the_window else 2)


def test_turns_that_are_appended_meanwhile_make_nothing_stale(
    place: Workplace, model: ModelServer
) -> None:
    place.ask(Trigger.AFTER_RESPONSE)
    (done,) = place.work(
        failpoint=between(place, "answered", lambda p: say(p.session, range(16, 20)))
    )
    assert done.outcome is Outcome.COMPACTED
    assert positions(place) == [0, 1, 2, *range(55, 80)]
    assert len(model.requests) == 1


def test_an_undo_meanwhile_makes_automatic_passes_wait_for_the_next_turn(
    place: Workplace, model: ModelServer
) -> None:
    compact(place)
    say(place.session, range(16, 24))
    place.ask(Trigger.AFTER_RESPONSE)
    first, second = place.work(failpoint=between(place, "answered", lambda p: p.session.undo()))
    assert first.outcome is Outcome.STALE
    assert (second.outcome, second.reason) == (
        Outcome.SUPPRESSED,
        "an undo waits for the next turn",
    )
    assert markers(place) == []
    assert place.job() is None
    assert rows_of(place.database, "SELECT count(*) FROM answers") == [(0,)]
    say(place.session, [24])
    compact(place)


def test_a_job_whose_plans_are_always_stale_lets_other_work_go_first(
    place: Workplace, model: ModelServer
) -> None:
    windows = iter(range(120_000, 0, -1))

    def failpoint(point: str) -> None:
        if point == "answered":
            with place.now.write() as connection:
                sessions.lock(connection, place.session.key)
                sessions.declare_window(connection, place.session.key, next(windows))

    place.ask(Trigger.AFTER_RESPONSE)
    assert [one.outcome for one in place.work(failpoint=failpoint)] == [Outcome.STALE] * 5
    job = place.job()
    assert job is not None
    assert (job.state.value, job.attempt, job.tries) == ("due", 0, 0)
    (done,) = place.work()
    assert done.outcome is Outcome.COMPACTED
    assert len(model.requests) == 1


def test_a_worker_that_lost_its_job_writes_nothing_and_its_answer_is_used(
    place: Workplace, model: ModelServer
) -> None:
    def take_away(one: Workplace) -> None:
        with one.now.write() as connection:
            sessions.lock(connection, one.session.key)
            assert jobs.fence_out(connection, one.now, one.session.key, JobKind.BATCH)

    before = dump(place.database)
    place.ask(Trigger.AFTER_RESPONSE)
    (lost,) = place.work(failpoint=between(place, "answered", take_away))
    assert lost.outcome is Outcome.HANDED_BACK
    after = dump(place.database)
    assert {table for table in after if after[table] != before[table]} == {
        "jobs",
        "answers",
        "endpoints",
    }
    (done,) = place.work()
    assert done.outcome is Outcome.COMPACTED
    assert len(model.requests) == 1


class Scenario:
    """A situation, a trigger, and how the model behaves up to the end of its job."""

    def __init__(
        self,
        trigger: Trigger = Trigger.AFTER_RESPONSE,
        *,
        fails: bool = False,
        turns: int = 8,
        answer: Callable[[Any], str] = structured,
        failed_before: int = 0,
        endpoint: dict[str, Any] | None = None,
        session: dict[str, Any] | None = None,
        **compression: Any,
    ) -> None:
        self.trigger = trigger
        self.fails = fails
        self.turns = turns
        self.answer = answer
        self.failed_before = failed_before
        self.endpoint = endpoint or {}
        self.session = session or {}
        self.compression = compression

    def begin(self, database: Database, model: ModelServer) -> Workplace:
        model.forget()
        model.answer(self.answer)
        session = desk(database, turns=self.turns, **self.session)
        if self.failed_before:
            with database.write() as connection:
                guards.put(
                    connection,
                    database,
                    session.key,
                    GuardName.BATCH_FAILURES,
                    count=self.failed_before,
                )
        if self.fails:
            model.always(Status(401))
        place = Workplace(
            session, model.base_url, endpoint=self.endpoint, compression=self.compression
        )
        place.ask(self.trigger)
        return place

    def go_on(self, place: Workplace, model: ModelServer, failpoint: Callable[[str], None]) -> None:
        """Work until nothing is left; the model answers as soon as a placeholder stands."""
        while (job := place.job()) is not None:
            if job.trigger == Trigger.REPLACE_PLACEHOLDER:
                model.always(Good())
            place.pass_by(max(0, job.run_at - place.time()))
            place.work(failpoint=failpoint)


SCENARIOS = {
    "success": Scenario(),
    "parts": Scenario(turns=12, endpoint={"context_length": 8192}),
    "nothing": Scenario(turns=2),
    "not-smaller": Scenario(turns=6, answer=padded(1_000)),
    "placeholder": Scenario(fails=True),
    "unchanged": Scenario(fails=True, abort_on_summary_failure=True),
    "reset": Scenario(
        fails=True,
        turns=10,
        abort_on_summary_failure=True,
        failed_before=2,
        session={"context_window": 3_500},
        threshold_tokens=2_000,
    ),
}
ENDS = {
    "success": ["compacted"],
    "parts": ["compacted"],
    "nothing": ["nothing_due"],
    "not-smaller": ["not_smaller"],
    "placeholder": ["failed", "placeholder", "placeholder_replaced"],
    "unchanged": ["failed"],
    "reset": ["failed", "reset"],
}


def whole(database: Database) -> dict[str, Any]:
    """Return what must be the same however often a worker was killed on the way."""
    stored = stored_rows(database)
    return {
        **{table: stored[table] for table in ("messages", "summaries", "sessions", "cursors")},
        "guards": [{**one, "count": None} for one in stored["guards"]],
        "jobs": [(one["kind"], one["state"], one["tries"]) for one in stored["jobs"]],
        "attempts": [(one["outcome"], one["error_class"]) for one in stored["attempts"]],
        "signals": {one["kind"] for one in stored["signals"]},
        "answers": stored["answers"],
    }


def check_crashes(name: str, database: Database, model: ModelServer) -> None:
    """Kill a worker at each point that a scenario reaches, and let the next one go on."""
    scenario, points = SCENARIOS[name], list[str]()
    with scenario.begin(database, model) as place:
        scenario.go_on(place, model, points.append)
        end, asked = whole(database), Counter(prompts(model))
        assert [one.outcome for one in place.tries()] == ENDS[name]
    assert scenario.fails or set(asked.values()) <= {1}
    for number, point in enumerate(points):
        emptied(database)
        left = [number]

        def failpoint(_: str, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] == -1:
                raise Killed

        with scenario.begin(database, model) as place:
            with pytest.raises(Killed):
                scenario.go_on(place, model, failpoint)
            assert place.session.counted() == place.session.live_rows()
            failed = scenario.fails and not place.tries()
            place.rescue()
            scenario.go_on(place, model, failpoint)
        assert whole(database) == end, f"killed at {point} ({number})"
        # Only an answer that was not stored yet is asked for again.
        again = sum((Counter(prompts(model)) - asked).values())
        assert again == (1 if point == "replied" else again if failed else 0), point
        assert again <= 1


def test_a_worker_killed_at_any_point_leaves_a_whole_state_and_the_next_one_finishes(
    database: Database, model: ModelServer
) -> None:
    check_crashes("success", database, model)


@SQLITE
@pytest.mark.parametrize("name", [name for name in SCENARIOS if name != "success"])
def test_a_worker_killed_on_the_way_to_any_other_end_changes_nothing_of_it(
    name: str, database: Database, model: ModelServer
) -> None:
    check_crashes(name, database, model)


def test_a_worker_that_stops_gives_the_job_back_untouched(
    place: Workplace, model: ModelServer
) -> None:
    place.ask(Trigger.AFTER_RESPONSE)
    with place.process() as context:
        (job,) = rows_of(place.database, "SELECT id FROM jobs")
        worked = work(replace(context, stopping=lambda: True), job[0])
    assert isinstance(worked, Worked)
    assert [one.outcome for one in worked.passes] == [Outcome.HANDED_BACK]
    assert rows_of(place.database, "SELECT state, attempt, tries FROM jobs") == [("due", 0, 0)]
    assert model.requests == []
