"""What a pass takes out of the live view, for each trigger and option."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.conversations.rows import Kind, Row
from tests.support.sessions.conversations import turn
from tests.support.sessions.strategies import marker_row, rows_of, transcripts, views
from tests.tiers import examples
from workers.batch.span import AROUND_TURNS, CompactionOptions, Span, divide
from workers.conversation.regions import RegionRules, Regions
from workers.conversation.transcript import is_system, tool_groups
from workers.policy.triggers import RULES, Trigger

SMALL = RegionRules(protect_first_n=3, protect_last_n=8, min_tail_user_messages=1, tail_budget=800)
NO_OPTIONS = CompactionOptions()
ENTERING = {
    Trigger.AFTER_RESPONSE,
    Trigger.PREFLIGHT,
    Trigger.HYGIENE_COUNT,
    Trigger.PAYLOAD_TOO_LARGE,
    Trigger.LONG_CONTEXT_RATE_LIMIT,
    Trigger.OUTPUT_TOO_LARGE,
    Trigger.CONTEXT_OVERFLOW,
    Trigger.MANUAL,
}


def desk(turns: int = 16, **last: Any) -> list[Row]:
    """Return rows of the airline desk; `last` is how its last turn is made."""
    made = [turn(number) for number in range(turns - 1)] + [turn(turns - 1, **last)]
    return rows_of([message for one in made for message in one])


def taken(
    view: Sequence[Row],
    options: CompactionOptions = NO_OPTIONS,
    *,
    trigger: Trigger = Trigger.MANUAL,
    turn_open: bool = False,
) -> list[int]:
    _, span = divide(view, SMALL, RULES[trigger], options, turn_open=turn_open)
    return [row.position for row in span.messages]


def test_without_options_the_middle_is_taken() -> None:
    assert taken(desk()) == [*range(3, 55)]


def test_the_span_knows_what_stays_in_it_and_where_its_marker_stands() -> None:
    view = desk(3)
    span = Span.of(view, [1, 2, 6, 7])
    assert span.kept == (3, 4, 5)
    assert (span.first_position, span.place) == (1, 7)
    assert span.tokens == sum(view[i].tokens for i in (1, 2, 6, 7))


def test_nothing_is_an_empty_span() -> None:
    assert Span.of(desk(2), []) == Span((), (), ())


@pytest.mark.parametrize(("keep", "first_kept"), [(1, 60), (3, 52), (6, 40), (15, 4), (16, 3)])
def test_as_many_turns_stay_as_a_person_wants(keep: int, first_kept: int) -> None:
    assert taken(desk(), CompactionOptions(keep_last=keep)) == [*range(3, first_kept)]


def test_with_no_turn_to_keep_the_newest_request_stays_all_the_same() -> None:
    assert taken(desk(), CompactionOptions(keep_last=0)) == [i for i in range(3, 64) if i != 60]


@pytest.mark.parametrize(
    ("up_to", "last"), [(31, 31), (30, 30), (29, 28), (3, 3), (2, None), (500, 63)]
)
def test_nothing_behind_the_place_is_taken_and_no_group_is_cut(
    up_to: int, last: int | None
) -> None:
    found = taken(desk(), CompactionOptions(up_to=up_to))
    assert (found[-1] if found else None) == last


def test_two_turns_on_either_side_of_a_place_are_taken() -> None:
    assert AROUND_TURNS == 2
    assert taken(desk(), CompactionOptions(around=30)) == [*range(20, 40)]
    assert taken(desk(), CompactionOptions(around=28)) == [*range(20, 40)]
    assert taken(desk(), CompactionOptions(around=31)) == [*range(20, 40)]


@pytest.mark.parametrize(
    "trigger", [one for one in Trigger if one is not Trigger.REPLACE_PLACEHOLDER]
)
def test_closed_groups_of_an_open_turn_are_for_some_triggers(trigger: Trigger) -> None:
    view = desk(4, tools=20)[:-2]  # the last call waits
    newest = 12
    found = taken(view, trigger=trigger, turn_open=True)
    assert (found[-1] > newest) == (trigger in ENTERING)
    assert newest not in found
    # Once the turn is closed, they are for everybody.
    assert taken(view, trigger=trigger)[-1] > newest


def test_a_group_that_was_closed_before_the_marker_is_of_the_open_turn_too() -> None:
    view = desk(4, tools=20)[:-1]
    # A pass has taken groups of the open turn while the first one still waited.
    marker = marker_row(Kind.BATCH, 30, "shown")
    shown = [*view[:3], *view[12:15], marker, *view[31:]]
    assert 13 in taken(shown, trigger=Trigger.PREFLIGHT, turn_open=True)
    assert taken(shown, trigger=Trigger.ENGINE, turn_open=True) == []


any_options = st.one_of(
    st.just(NO_OPTIONS),
    st.builds(CompactionOptions, keep_last=st.integers(0, 40)),
    st.builds(CompactionOptions, up_to=st.integers(0, 400)),
    st.builds(CompactionOptions, around=st.integers(0, 400)),
)
numbers = st.builds(
    RegionRules,
    st.integers(0, 6),
    st.integers(1, 24),
    st.integers(1, 3),
    st.sampled_from((20, 200, 2_000)),
)


@given(
    view=views(),
    rules=numbers,
    options=any_options,
    trigger=st.sampled_from(Trigger),
    turn_open=st.booleans(),
)
def test_no_group_is_cut_and_what_is_protected_stays(
    view: list[Row],
    rules: RegionRules,
    options: CompactionOptions,
    trigger: Trigger,
    turn_open: bool,
) -> None:
    regions, span = divide(view, rules, RULES[trigger], options, turn_open=turn_open)
    gone = indexes(view, span)
    assert gone <= set(regions.middle)
    check_protected(view, rules, regions, gone)
    # One marker is left where any row goes, and it covers all those before it.
    if span.messages:
        assert {i for i, row in enumerate(view) if row.kind.is_marker} <= gone
        first, last = span.messages[0].position, span.messages[-1].position
        assert [row.position for row in span.messages] == [
            row.position
            for row in view
            if first <= row.position <= last
            and not row.kind.is_marker
            and row.position not in span.kept
        ]
    requests = [i for i, row in enumerate(view) if row.opens_turn]
    if turn_open and not RULES[trigger].enters_open_turn and requests:
        of_the_open_turn = {i for i in gone if i >= requests[-1]}
        assert all(view[i].kind.is_marker for i in of_the_open_turn)


def indexes(view: Sequence[Row], span: Span) -> set[int]:
    places = {(row.order, row.kind): i for i, row in enumerate(view)}
    return {places[row.order, row.kind] for row in (*span.messages, *span.markers)}


def check_protected(
    view: Sequence[Row], rules: RegionRules, regions: Regions, gone: set[int]
) -> None:
    assert not gone & regions.held
    assert not any(is_system(view[i]) for i in gone)
    requests = [i for i, row in enumerate(view) if row.opens_turn]
    kept = requests[:1] + requests[-rules.min_tail_user_messages :]
    assert not gone & set(kept)
    for group in tool_groups(view):
        assert gone.issuperset(group.members) or gone.isdisjoint(group.members)
        assert not (group.unanswered and gone & set(group.members))


@examples(40)
@given(view=views(transcripts(max_turns=8)), rules=numbers, keep=st.integers(1, 40))
def test_turns_that_a_person_keeps_lose_nothing_behind_the_last_marker(
    view: list[Row], rules: RegionRules, keep: int
) -> None:
    _, span = divide(
        view, rules, RULES[Trigger.MANUAL], CompactionOptions(keep_last=keep), turn_open=False
    )
    last_marker = max((i for i, row in enumerate(view) if row.kind.is_marker), default=-1)
    requests = [i for i, row in enumerate(view) if row.opens_turn]
    if requests:
        from_here = max(requests[max(0, len(requests) - keep)], last_marker + 1)
        assert all(i < from_here for i in indexes(view, span))


@examples(40)
@given(view=views(transcripts(max_turns=8)), rules=numbers, place=st.integers(0, 400))
def test_only_messages_up_to_the_place_or_before_the_last_marker_are_taken(
    view: list[Row], rules: RegionRules, place: int
) -> None:
    _, span = divide(
        view, rules, RULES[Trigger.MANUAL], CompactionOptions(up_to=place), turn_open=False
    )
    last_marker = max((row.position for row in view if row.kind.is_marker), default=-1)
    assert all(row.position <= max(place, last_marker) for row in span.messages)


@examples(40)
@given(view=views(transcripts(max_turns=8)), rules=numbers, place=st.integers(0, 400))
def test_around_a_place_at_most_five_turns_are_taken(
    view: list[Row], rules: RegionRules, place: int
) -> None:
    _, span = divide(
        view, rules, RULES[Trigger.MANUAL], CompactionOptions(around=place), turn_open=False
    )
    starts = [row.position for row in view if row.opens_turn]

    def number(position: int) -> int:
        return sum(start <= position for start in starts)

    assert all(abs(number(row.position) - number(place)) <= AROUND_TURNS for row in span.messages)
