"""Faults that the machine of `test_batch_machine` found, each in the fewest steps."""

from __future__ import annotations

from storage.engine import Database
from tests.support.machine.stage import Stage
from tests.support.machine.summariser import Answer
from tests.support.machine.turns import Kind, Shape, Wild
from tests.support.sessions.strategies import Transcript
from workers.summariser.contract import ErrorClass


def kinds(stage: Stage) -> list[tuple[str, str]]:
    """Kind and status of every summary of the first session."""
    summaries = stage.state(stage.key(0)).summaries.values()
    return [(one.kind, one.status) for one in summaries]


def test_a_reset_does_not_bring_back_a_summary_that_is_larger_than_what_leaves(
    database: Database,
) -> None:
    with Stage(
        database,
        threshold_tokens=1000,
        protect_last_n=3,
        summary_attempts=1,
        exhausted_after=1,
        micro_compact=False,
    ) as stage:
        stage.summariser.usually = Answer.LONG
        for _ in range(4):
            stage.say(0, Shape(Kind.HUGE, 200, 4))
        stage.compact(0)
        stage.work_off()
        stage.summariser.usually = ErrorClass.AUTH
        stage.set_model(0, "m", 3_000)
        stage.say(0, Shape(Kind.TOOLS, 200, 4))
        stage.say(0, Shape(Kind.TOOLS, 200, 4))
        stage.compact(0)
        stage.work_off()
        assert kinds(stage)[-1] == ("reset", "live")


def test_a_reset_leaves_the_first_request_that_an_agent_has_greeted_before(
    database: Database,
) -> None:
    greeting = {"role": "assistant", "content": "Good morning."}
    with Stage(
        database,
        window=1_500,
        threshold_tokens=1000,
        protect_first_n=0,
        protect_last_n=3,
        summary_attempts=1,
        exhausted_after=1,
        abort_on_summary_failure=True,
        micro_compact=False,
    ) as stage:
        stage.summariser.usually = ErrorClass.AUTH
        stage.say(0, Wild(Transcript([greeting], [None])))
        for _ in range(5):
            stage.say(0, Shape(Kind.TOOLS, 200))
        stage.compact(0)
        stage.work_off()
        assert kinds(stage) == [("reset", "live")]
        live = [row.position for row in stage.state(stage.key(0)).live if row.opens_turn]
        assert live == [1, 17]


def test_a_placeholder_over_a_good_summary_and_little_else_is_replaced(database: Database) -> None:
    with Stage(
        database, threshold_tokens=1000, protect_last_n=3, summary_attempts=1, micro_compact=False
    ) as stage:
        for _ in range(8):
            stage.say(0, Shape(Kind.TOOLS, 200, 2))
        stage.say(0, Shape())
        stage.compact(0, keep_last=1)
        stage.work_off()
        stage.summariser.usually = ErrorClass.SERVER_ERROR
        stage.say(0, Shape())
        stage.compact(0, keep_last=1)
        stage.work_off()
        assert kinds(stage) == [("batch", "superseded"), ("placeholder", "live")]
        stage.recover()
        assert kinds(stage)[-1] == ("placeholder_replaced", "live")
