"""The batch job on real databases: what it takes, what it asks, and what it writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import Connection

from storage.conversations import messages, sessions
from storage.conversations.rows import Kind
from storage.engine import Database
from storage.guards import GuardName
from storage.outcomes import Outcome
from tests.support.model.server import ModelServer
from tests.support.sessions.conversations import turn
from tests.support.sessions.gateways import rows_of
from tests.support.sessions.stored_session import dump
from tests.support.workers.batch_steps import (
    SQLITE,
    compact,
    markers,
    outcome,
    positions,
    prompts,
)
from tests.support.workers.workplace import Workplace, desk, padded, say, structured
from workers.batch import job as batch_job
from workers.conversation.markers import frame_tokens
from workers.conversation.tokens import estimate_text
from workers.policy.threshold import session_threshold
from workers.policy.triggers import RULES, Trigger
from workers.prune import job as prune_job
from workers.prune.plan import NothingToPrune, PrunePlan
from workers.prune.rules import Shortened
from workers.settings.compression import CompressionSettings

OF_AN_ARCHIVED_ROW = {"active", "compacted", "absorbed_by"}


@pytest.fixture
def place(database: Database, model: ModelServer) -> Iterator[Workplace]:
    """Yield the airline desk after sixteen turns, 5,510 tokens over a threshold of 4,000."""
    with Workplace(desk(database), model.base_url) as one:
        yield one


# What a pass writes


def test_a_pass_writes_a_delta_and_leaves_what_stays_byte_for_byte(place: Workplace) -> None:
    before = {row["id"]: row for row in dump(place.database)["messages"]}
    done = compact(place)
    after = {row["id"]: row for row in dump(place.database)["messages"]}
    (marker,) = [row for number, row in after.items() if number not in before]
    archived = {number for number in before if after[number] != before[number]}
    assert done.rows == len(archived) == 52
    for number, row in before.items():
        changed = {name for name in row if row[name] != after[number][name]}
        assert changed == (OF_AN_ARCHIVED_ROW if number in archived else set())
    assert {after[number]["absorbed_by"] for number in archived} == {marker["summary_id"]}
    assert [after[n]["position"] for n in sorted(archived)] == list(range(3, 55))
    # Head, marker, tail; the marker stands where the last covered row was.
    assert positions(place) == [0, 1, 2, *range(55, 64)]
    assert (marker["kind"], marker["position"], marker["role"]) == ("batch", 54, None)
    assert place.session.cursor() == 55
    assert place.session.counted() == place.session.live_rows() == (13, done.tokens_after)
    assert rows_of(place.database, "SELECT count(*) FROM answers") == [(0,)]
    assert rows_of(place.database, "SELECT state, tries FROM jobs") == [("done", 0)]


def test_a_pass_leaves_a_record_and_a_signal_with_its_figures(
    place: Workplace, model: ModelServer
) -> None:
    done = compact(place)
    (one,) = place.tries()
    assert (one.outcome, one.trigger, one.model) == ("compacted", "after_response", "test-model")
    assert (one.tokens_before, one.tokens_after) == (done.tokens_before, done.tokens_after)
    assert (one.messages_before, one.messages_after, one.requests) == (64, 13, 1)
    assert one.absorbed_tokens - one.tokens_saved == markers(place)[0].tokens
    assert (one.cursor, one.passes, one.threshold_tokens) == (55, 1, 4000)
    assert one.prompt_tokens
    (signal,) = place.signals()
    assert (signal.kind.value, signal.quiet) == ("compaction_finished", True)
    assert signal.facts["tokens_after"] == done.tokens_after


def test_progress_is_signalled_loudly_on_demand(place: Workplace) -> None:
    place.configure(progress_notices=True)
    compact(place)
    assert [(one.kind.value, one.quiet) for one in place.signals()] == [
        ("compaction_started", False),
        ("compaction_finished", False),
    ]


def test_an_undo_brings_back_every_row_as_it_was(place: Workplace) -> None:
    before, counted = place.view(), place.session.counted()
    compact(place)
    place.session.undo()
    assert place.view() == before
    assert place.session.counted() == counted == place.session.live_rows()
    assert place.session.cursor() == 0


def test_a_second_pass_updates_the_summary_and_absorbs_both_markers(
    place: Workplace, model: ModelServer
) -> None:
    compact(place)
    (first,) = markers(place)
    say(place.session, range(16, 24))
    agent = [row for row in place.view() if row.position > 54 and not row.opens_turn][:6]
    place.session.absorb(agent, "The rolling summary covers six steps.")
    assert [row.kind for row in markers(place)] == [Kind.BATCH, Kind.MICRO]
    model.forget()
    model.answer(structured)
    compact(place)
    (second,) = markers(place)
    assert second.kind is Kind.BATCH
    assert second.position > 62
    assert place.session.cursor() == second.position + 1
    (prompt,) = prompts(model)
    assert first.summary is not None
    assert first.summary in prompt
    assert "The rolling summary covers six steps." in prompt
    assert "Result 16.0" in prompt
    assert "Result 3.0" not in prompt
    assert rows_of(place.database, "SELECT kind, status FROM summaries ORDER BY id") == [
        ("batch", "superseded"),
        ("micro", "superseded"),
        ("batch", "live"),
    ]
    place.session.undo()
    assert [row.kind for row in markers(place)] == [Kind.BATCH, Kind.MICRO]


def test_covered_requests_stay_word_for_word_from_one_summary_to_the_next(
    place: Workplace, model: ModelServer
) -> None:
    compact(place)
    say(place.session, range(16, 24))
    compact(place)
    (marker,) = markers(place)
    quoted = [line for line in marker.verbatim.splitlines() if "change booking" in line]
    # Newest first, those of the first pass included; the first request is in the head.
    numbers = [int(line.split(":")[0].split()[-1]) for line in quoted]
    assert numbers == list(range(numbers[0], 0, -1))
    assert numbers[0] >= 20
    assert marker.tokens == estimate_text(marker.shown) + frame_tokens()
    assert "change booking B0003" not in "".join(
        prompt.split("previous summary", 1)[-1].split("messages to summarise", 1)[0]
        for prompt in prompts(model)[1:]
    )


def test_no_request_is_quoted_where_the_setting_says_so(place: Workplace) -> None:
    place.configure(verbatim_user_tokens=0)
    compact(place)
    assert markers(place)[0].verbatim == ""


def test_no_secret_goes_to_the_model_or_into_what_a_pass_writes(
    place: Workplace, model: ModelServer
) -> None:
    key = "ghp_" + "Z9y8X7w6V5u4T3s2R1q0P9o8N7m6L5k4J3h2"
    leaky = turn(99)
    leaky[0]["content"] += f" My token is {key}"
    leaky[2]["content"] += f" token={key}"
    place.session.append(leaky)
    say(place.session, range(100, 106))
    model.answer(lambda request: f"{structured(request)}\nThe key {key} was used.")
    compact(place, focus=f"the key {key}")
    written = dump(place.database)
    assert key in str(written["messages"])
    assert key not in str([written["summaries"], written["attempts"], written["signals"]])
    assert key not in str(model.requests)
    assert "REDACTED" in str(model.requests)
    assert "REDACTED" in markers(place)[0].shown


# What a person may ask for


def test_a_topic_is_passed_to_the_model(place: Workplace, model: ModelServer) -> None:
    compact(place, Trigger.MANUAL, focus="the fare rules of booking B0007")
    (prompt,) = prompts(model)
    assert "the fare rules of booking B0007" in prompt
    assert "60 to 70 %" in prompt


def test_the_newest_turns_that_a_person_wants_to_keep_stay(place: Workplace) -> None:
    compact(place, Trigger.MANUAL, keep_last=6)
    assert positions(place) == [0, 1, 2, *range(40, 64)]
    assert markers(place)[0].position == 39


def test_a_person_may_keep_nothing_but_the_newest_request(place: Workplace) -> None:
    compact(place, Trigger.MANUAL, keep_last=0)
    assert positions(place) == [0, 1, 2, 60]


def test_a_part_up_to_a_place_is_compacted(place: Workplace) -> None:
    compact(place, Trigger.MANUAL, up_to=31)
    assert positions(place) == [0, 1, 2, *range(32, 64)]
    assert place.session.cursor() == 32


def test_a_place_inside_a_tool_group_leaves_the_group_whole(place: Workplace) -> None:
    compact(place, Trigger.MANUAL, up_to=29)  # the call; its result is at 30
    assert positions(place) == [0, 1, 2, *range(29, 64)]


def test_turns_around_a_place_are_compacted_and_those_before_stay(place: Workplace) -> None:
    compact(place, Trigger.MANUAL, around=30)
    assert positions(place) == [*range(20), *range(40, 64)]
    # What stands before it can be compacted later on, with the marker.
    compact(place)
    assert positions(place) == [0, 1, 2, *range(55, 64)]
    assert len(markers(place)) == 1


# Nothing to do


@pytest.mark.parametrize(
    ("turns", "with_one_more"),
    [(2, Outcome.NOTHING_DUE), (4, Outcome.COMPACTED)],
    ids=["empty", "small"],
)
def test_an_empty_or_too_small_middle_is_remembered_until_something_changes(
    turns: int, with_one_more: Outcome, database: Database, model: ModelServer
) -> None:
    with Workplace(desk(database, turns=turns), model.base_url) as place:
        before = place.view()
        found = outcome(place, Trigger.AFTER_RESPONSE)
        assert found.outcome is Outcome.NOTHING_DUE
        assert found.reason.startswith("the middle")
        # Nobody plans again for a while, but for a person who asks.
        assert outcome(place, Trigger.PREFLIGHT).outcome is Outcome.SUPPRESSED
        assert outcome(place, Trigger.HYGIENE_TOKENS).outcome is Outcome.SUPPRESSED
        assert outcome(place, Trigger.MANUAL).outcome is Outcome.NOTHING_DUE
        assert [one.outcome for one in place.tries()] == [
            "nothing_due",
            "suppressed",
            "suppressed",
            "nothing_due",
        ]
        assert place.view() == before
        assert set(place.guards()) == {GuardName.NOTHING_TO_COMPACT}
        say(place.session, [90])
        assert outcome(place, Trigger.PREFLIGHT).outcome is with_one_more
        say(place.session, range(91, 97))
        assert outcome(place, Trigger.PREFLIGHT).outcome is Outcome.COMPACTED
        assert set(place.guards()) == set()


def test_a_window_that_leaves_no_room_is_nothing_to_compact(
    database: Database, model: ModelServer
) -> None:
    session = desk(database, context_window=1000, reserved_output=999)
    with Workplace(session, model.base_url) as place:
        found = outcome(place, Trigger.MANUAL)
        assert found.outcome is Outcome.NOTHING_DUE
        assert "1,000 tokens" in found.reason


def test_a_summary_that_would_not_shrink_the_view_is_refused_and_that_is_remembered(
    database: Database, model: ModelServer
) -> None:
    with Workplace(desk(database, turns=6), model.base_url) as place:
        before, rows = place.view(), dump(database)["messages"]
        middle = sum(row.tokens for row in before if 3 <= row.position < 15)
        model.answer(padded(middle - 20))
        refused = outcome(place, Trigger.AFTER_RESPONSE)
        assert refused.outcome is Outcome.NOT_SMALLER
        takes = int(refused.reason.split()[0].replace(",", ""))
        assert takes >= middle
        assert dump(database)["messages"] == rows
        assert rows_of(database, "SELECT count(*) FROM summaries") == [(0,)]
        assert rows_of(database, "SELECT count(*) FROM answers") == [(0,)]
        # It was no failure, and is not tried again on the same view.
        assert set(place.guards()) == {GuardName.NOT_SMALLER}
        assert outcome(place, Trigger.AFTER_RESPONSE).outcome is Outcome.SUPPRESSED
        assert outcome(place, Trigger.HYGIENE_TOKENS).outcome is Outcome.SUPPRESSED
        assert len(model.requests) == 1
        assert outcome(place, Trigger.MANUAL).outcome is Outcome.NOT_SMALLER
        assert len(model.requests) == 2
        # 5 % of the threshold are 200 tokens; a turn has 345.
        say(place.session, [6])
        model.answer(structured)
        assert outcome(place, Trigger.AFTER_RESPONSE).outcome is Outcome.COMPACTED
        assert set(place.guards()) == set()
        assert [one.outcome for one in place.tries()] == [
            "not_smaller",
            "suppressed",
            "suppressed",
            "not_smaller",
            "compacted",
        ]


# The first layer


def pruning(tokens: int) -> Callable[..., PrunePlan | NothingToPrune]:
    """Rules that make tool results and answers smaller by that much, once."""

    def plan(
        connection: Connection, key: int, settings: CompressionSettings, *_: object, **__: object
    ) -> PrunePlan | NothingToPrune:
        session, left = sessions.fetch(connection, key), tokens
        rows = []
        for row in messages.read_view(connection, key):
            spared = 0 if row.opens_turn else min(left, row.tokens - 1)
            if spared and row.message is not None:
                rows.append(Shortened(row, row.message, row.tokens - spared, (), ()))
                left -= spared
        assert left == 0
        return PrunePlan(session, session_threshold(session, settings), tuple(rows))

    return plan


@pytest.mark.parametrize("trigger", [Trigger.AFTER_RESPONSE, Trigger.PREFLIGHT, Trigger.IDLE])
def test_pruning_that_is_enough_spares_the_model(
    trigger: Trigger, place: Workplace, model: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prune_job, "plan_prune", pruning(2_000))
    place.ask(trigger)
    (done,) = place.work()
    assert done.outcome is Outcome.PRUNED_ENOUGH
    assert (done.tokens_before, done.tokens_after) == (5_510, 3_510)
    assert done.rows > 0
    assert [one.outcome for one in place.tries()] == ["pruned_enough"]
    assert model.requests == []
    assert markers(place) == []
    assert place.job() is None


def test_pruning_that_is_not_enough_leaves_the_rest_to_the_model(
    place: Workplace, model: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prune_job, "plan_prune", pruning(100))
    place.ask(Trigger.AFTER_RESPONSE)
    (done,) = place.work()
    assert done.outcome is Outcome.COMPACTED
    assert done.tokens_before == 5_410
    assert [one.outcome for one in place.tries()] == ["pruned", "compacted"]
    assert len(model.requests) == 1


@SQLITE
@pytest.mark.parametrize("trigger", [one for one in Trigger if RULES[one].bypasses])
def test_a_pass_that_bypasses_the_guards_gets_a_summary_at_once(
    trigger: Trigger, place: Workplace, model: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def prune(*_: object) -> None:
        raise AssertionError("nobody asked for that")

    monkeypatch.setattr(batch_job, "prune_first", prune)
    place.ask(trigger)
    (done,) = place.work()
    assert done.outcome is Outcome.COMPACTED
    assert len(model.requests) == 1


# A turn that is still open


OPEN_TURN = {
    Trigger.AFTER_RESPONSE,
    Trigger.PREFLIGHT,
    Trigger.HYGIENE_COUNT,
    Trigger.PAYLOAD_TOO_LARGE,
    Trigger.LONG_CONTEXT_RATE_LIMIT,
    Trigger.OUTPUT_TOO_LARGE,
    Trigger.CONTEXT_OVERFLOW,
    Trigger.MANUAL,
}
"""Triggers during a turn, and those that bypass the guards (docs/explanation/triggers.md)."""


@SQLITE
@pytest.mark.parametrize(
    "trigger", [one for one in Trigger if one is not Trigger.REPLACE_PLACEHOLDER]
)
def test_closed_groups_of_an_open_turn_are_for_some_triggers_only(
    trigger: Trigger, database: Database, model: ModelServer
) -> None:
    session = desk(database, turns=6)
    session.append(turn(6, tools=20)[:-2], closes_turn=False)  # its last call waits
    with Workplace(session, model.base_url) as place:
        compact(place, trigger)
        view = place.view()
        request = next(row for row in view if row.position == 24)
        assert request.opens_turn
        behind = [row for row in view if row.position > 24 and not row.kind.is_marker]
        taken = 40 - len(behind) - 1
        assert (taken > 0) == (trigger in OPEN_TURN)
        assert behind[-1].calls
        assert place.session.record().turn_open
