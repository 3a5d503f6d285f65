"""A compaction by hand: waiting, giving up, judging the result."""

from __future__ import annotations

from datetime import date
from threading import Event
from typing import Any

import pytest

from afterturn.compaction.result import RESULT, Result
from afterturn.compaction.run import Interruptible, PassSteps, run_in_background
from afterturn.render.fields import document
from storage.attempts import AttemptRecord
from tests.support.sessions.session_records import session_record
from workers.summariser.contract import Passage, Stopped, SummaryRequest, Task
from workers.summariser.extractive.local import LocalSummariser

REQUEST = SummaryRequest(
    task=Task.ABSORB,
    previous="",
    question="Where?",
    passages=(Passage("assistant", "The hall by the river is free on the ninth of May. " * 9),),
    target_tokens=50,
    replaced_tokens=500,
    today=date(2026, 11, 30),
)


def attempt(outcome: str, before: int = 9_000, after: int = 9_000, **facts: Any) -> AttemptRecord:
    values: dict[str, Any] = {
        "job_id": 1,
        "kind": "batch",
        "trigger": "manual",
        "outcome": outcome,
        "messages_before": 40,
        "messages_after": 30,
        "tokens_before": before,
        "tokens_after": after,
        "cursor": 0,
        "passes": 1,
        "tokens_saved": 0,
        "threshold_tokens": 4_000,
    }
    return AttemptRecord(**{**values, **facts})


def result_of(*tries: AttemptRecord, **facts: Any) -> Result:
    return Result(session_record(), tries, **facts)


class Seen:
    def __init__(self) -> None:
        self.steps: list[str] = []

    def step(self, text: str) -> None:
        self.steps.append(text)

    def remark(self, text: str) -> None:
        raise AssertionError(text)


def test_what_is_run_in_the_background_ends_with_its_result_or_error() -> None:
    done: list[int] = []
    run_in_background(lambda: done.append(1), Event(), lambda: done.append(2))
    assert done == [1]
    with pytest.raises(ZeroDivisionError):
        run_in_background(lambda: done.append(1 // 0), Event(), lambda: None)


def test_a_question_is_given_up_once_the_person_has() -> None:
    interrupted = Event()
    summariser = Interruptible(LocalSummariser(), interrupted)
    assert (summariser.model, summariser.room(9)) == ("local", LocalSummariser().room(9))
    assert summariser.fingerprint == LocalSummariser().fingerprint
    assert "river" in summariser.summarise(REQUEST, lambda: False).text
    with pytest.raises(Stopped):
        summariser.summarise(REQUEST, lambda: True)
    interrupted.set()
    with pytest.raises(Stopped):
        summariser.summarise(REQUEST, lambda: False)


@pytest.mark.parametrize(("requests", "count"), [(1, 1), (3, 3)])
def test_steps_count_the_requests_where_there_are_several(requests: int, count: int) -> None:
    seen = Seen()
    steps = PassSteps(seen, model="small", requests=requests)
    for point in ("claimed", "planned", "replied", "replied", "answered"):
        steps(point)
    assert len(seen.steps) == count
    assert ("2 of about 3 requests" in seen.steps[-1]) == (requests == 3)


@pytest.mark.parametrize(
    ("before", "after", "whole", "stuck"),
    [
        (9_000, 8_100, True, True),  # 90 % are left, and the threshold is passed still
        (9_000, 8_099, True, False),
        (9_000, 8_100, False, False),  # only a part was meant
        (4_400, 4_000, True, True),
        (4_400, 3_999, True, False),  # below the threshold, so nothing is wrong
    ],
)
def test_a_session_is_stuck_when_a_whole_pass_left_it_over_its_threshold(
    before: int, after: int, whole: bool, stuck: bool
) -> None:
    result = result_of(attempt("compacted", before, after), whole=whole)
    assert result.stuck == stuck
    assert document(RESULT, result)["stuck"] == stuck


@pytest.mark.parametrize(
    ("tries", "good", "changed", "error"),
    [
        ([], False, False, None),
        (["compacted"], True, True, None),
        (["nothing_due"], True, False, None),
        (["not_smaller"], True, False, None),
        (["failed", "compacted"], True, True, "empty"),
        (["failed", "failed"], False, False, "empty"),
        (["failed", "placeholder"], False, True, "empty"),
        (["failed", "placeholder", "reset"], False, True, "empty"),
    ],
)
def test_only_a_summary_or_nothing_to_do_is_a_good_end(
    tries: list[str], good: bool, changed: bool, error: str | None
) -> None:
    made = [attempt(one, error_class="empty" if one == "failed" else None) for one in tries]
    result = result_of(*made)
    assert (result.good, result.changed, result.error_class) == (good, changed, error)
    assert document(RESULT, result)["outcome"] == (tries[-1] if tries else None)
