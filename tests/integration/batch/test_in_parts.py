"""A middle that is larger than the window of the summariser."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest

from storage.engine import Database
from storage.outcomes import Outcome
from tests.support.model.behaviours import Good, Status
from tests.support.model.server import ModelServer
from tests.support.sessions.gateways import rows_of
from tests.support.workers.batch_steps import compact, markers, prompts
from tests.support.workers.workplace import Killed, Workplace, desk, say, structured
from workers.policy.triggers import Trigger
from workers.runtime.jobs import Worked, work
from workers.summariser.contract import ErrorClass

TOO_LONG = {"error": {"message": "This model's maximum context length is 4096 tokens."}}


@pytest.fixture
def place(database: Database, model: ModelServer) -> Iterator[Workplace]:
    """Yield the airline desk after sixteen turns, 5,510 tokens over a threshold of 4,000."""
    with Workplace(desk(database), model.base_url) as one:
        yield one


def parts_of(model: ModelServer) -> tuple[list[str], list[str]]:
    """Return what was asked of parts, and of what joins them."""
    merges = [prompt for prompt in prompts(model) if "join the summaries below" in prompt]
    return [prompt for prompt in prompts(model) if prompt not in merges], merges


def said_in(prompt: str) -> list[int]:
    """Numbers of the turns whose requests are in a prompt."""
    return [int(n) for n in re.findall(r"Request (\d+): please", prompt)]


@pytest.fixture
def narrow(place: Workplace) -> Workplace:
    """Return the desk, and a summariser with a window of 8,192 tokens."""
    place.configure(endpoint={"context_length": 8192})
    return place


def test_a_middle_larger_than_the_window_is_asked_in_parts_cut_between_exchanges(
    narrow: Workplace, model: ModelServer
) -> None:
    done = compact(narrow)
    assert done.rows == 52
    parts, merges = parts_of(model)
    assert len(parts) >= 4
    assert len(merges) == 1
    # Each turn is in one part, in order; the first request is in the head.
    assert [number for part in parts for number in said_in(part)] == list(range(1, 14))
    for part in parts[1:]:
        (first, *_) = re.findall(r"(?:Request|Result|Done with)[^:.]*", part)
        assert first.startswith("Request")
    answers = [structured(request) for request in model.requests[:-1]]
    assert all(f"part {i}" in merges[0] for i in range(1, len(parts) + 1))
    assert all(answer.splitlines()[1] in merges[0] for answer in answers)
    (marker,) = markers(narrow)
    assert marker.summary == structured(model.requests[-1])
    (record,) = narrow.tries()
    assert record.requests == len(model.requests) == len(parts) + 1


def test_the_previous_summary_goes_to_the_request_that_joins_the_parts_alone(
    narrow: Workplace, model: ModelServer
) -> None:
    compact(narrow)
    (first,) = markers(narrow)
    say(narrow.session, range(16, 32))
    model.forget()
    model.answer(structured)
    compact(narrow)
    parts, merges = parts_of(model)
    assert first.summary is not None
    assert first.summary in merges[0]
    assert not any(first.summary in part for part in parts)


def test_parts_that_were_answered_are_not_asked_again_after_a_crash(
    narrow: Workplace, model: ModelServer
) -> None:
    replies = Counter[str]()

    def failpoint(point: str) -> None:
        replies[point] += 1
        if replies["replied"] == 3:
            raise Killed

    narrow.ask(Trigger.AFTER_RESPONSE)
    with pytest.raises(Killed):
        narrow.work(failpoint=failpoint)
    assert rows_of(narrow.database, "SELECT count(*) FROM answers") == [(2,)]
    narrow.rescue()
    (done,) = narrow.work()
    assert done.outcome is Outcome.COMPACTED
    parts, merges = parts_of(model)
    # The third answer was lost on its way; the first two were stored.
    assert list(Counter(parts).values()) == [1, 1, 2, *[1] * (len(set(parts)) - 3)]
    assert len(merges) == 1
    assert rows_of(narrow.database, "SELECT count(*) FROM answers") == [(0,)]


def test_a_worker_that_stops_ends_between_two_parts_and_leaves_the_rest_to_the_next(
    narrow: Workplace, model: ModelServer
) -> None:
    narrow.ask(Trigger.AFTER_RESPONSE)
    ((job,),) = rows_of(narrow.database, "SELECT id FROM jobs")
    with narrow.process() as context:
        worked = work(replace(context, stopping=lambda: len(model.requests) >= 2), job)
    assert isinstance(worked, Worked)
    assert [one.outcome for one in worked.passes] == [Outcome.HANDED_BACK]
    assert rows_of(narrow.database, "SELECT state, attempt, tries FROM jobs") == [("due", 0, 0)]
    assert rows_of(narrow.database, "SELECT count(*) FROM answers") == [(2,)]
    (done,) = narrow.work()
    assert done.outcome is Outcome.COMPACTED
    parts, merges = parts_of(model)
    assert set(Counter(parts + merges).values()) == {1}


def test_parts_that_were_answered_are_not_asked_again_after_a_failure(
    narrow: Workplace, model: ModelServer
) -> None:
    model.fail_next(Good(), Good(), Status(500))
    narrow.ask(Trigger.AFTER_RESPONSE)
    (failed,) = narrow.work()
    assert failed.outcome is Outcome.FAILED
    narrow.pass_by(narrow.wait_ms())
    (done,) = narrow.work()
    assert done.outcome is Outcome.COMPACTED
    parts, merges = parts_of(model)
    assert list(Counter(parts).values()) == [1, 1, 2, *[1] * (len(set(parts)) - 3)]
    assert len(merges) == 1
    assert [(one.outcome, one.requests) for one in narrow.tries()] == [
        ("failed", 3),
        ("compacted", len(model.requests) - 3),
    ]


def test_parts_that_were_answered_serve_the_real_summary_of_a_placeholder(
    narrow: Workplace, model: ModelServer
) -> None:
    model.fail_next(Good(), Good(), Status(401))
    narrow.ask(Trigger.AFTER_RESPONSE)
    (failed,) = narrow.work()
    assert failed.outcome is Outcome.PLACEHOLDER
    narrow.pass_by(narrow.wait_ms())
    (replaced,) = narrow.work()
    assert replaced.outcome is Outcome.PLACEHOLDER_REPLACED
    parts, _ = parts_of(model)
    assert list(Counter(parts).values()) == [1, 1, 2, *[1] * (len(set(parts)) - 3)]


def test_what_was_too_long_is_asked_in_halves_and_never_again_as_it_was(
    place: Workplace, model: ModelServer
) -> None:
    model.fail_next(Status(400, body=TOO_LONG), Status(400, body=TOO_LONG))
    place.ask(Trigger.AFTER_RESPONSE)
    first, second, third = [place.work()[0] for _ in range(3)]
    assert first.outcome is Outcome.FAILED
    assert second.outcome is Outcome.FAILED
    assert (first.error_class, first.delay_ms) == (ErrorClass.CONTEXT_OVERFLOW, 0)
    assert third.outcome is Outcome.COMPACTED
    asked = prompts(model)
    assert len(set(asked)) == len(asked)
    frame = len(asked[0]) - len(asked[0].rpartition("messages to summarise")[2])
    sizes = [len(prompt) - frame for prompt in asked]
    assert sizes[1] <= 0.6 * sizes[0]
    assert sizes[2] <= 0.6 * sizes[1]
    # The session's next pass remembers it.
    say(place.session, range(16, 32))
    model.forget()
    model.answer(structured)
    compact(place)
    assert max(map(len, parts_of(model)[0])) <= len(asked[2]) + 1_000


def test_another_summariser_is_not_judged_by_what_was_too_long_for_the_former(
    place: Workplace, model: ModelServer
) -> None:
    model.fail_next(Status(400, body=TOO_LONG))
    place.ask(Trigger.AFTER_RESPONSE)
    place.work()
    place.configure(endpoint={"model": "one-with-a-larger-window"})
    (done,) = place.work()
    assert done.outcome is Outcome.COMPACTED
    assert len(model.requests) == 2
    assert len(set(prompts(model))) == 1
