"""Head, middle and tail."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.conversations.rows import Kind, Row
from tests.support.sessions.strategies import any_transcripts, rows_of, views
from tests.tiers import examples
from workers.conversation.regions import RegionRules, find_regions, head_end, tail_start
from workers.conversation.transcript import is_system, tool_groups

RULES = RegionRules(
    protect_first_n=3, protect_last_n=20, min_tail_user_messages=1, tail_budget=1000
)


def rules(*, first: int = 3, last: int = 20, users: int = 1, budget: int = 1000) -> RegionRules:
    return RegionRules(first, last, users, budget)


def rows(*specs: str, tokens: int = 10) -> list[Row]:
    """Return rows from `sys`, `user`, `asst`, `call:ID`, `tool:ID`, `marker`; ` x500` sets
    tokens."""
    made = []
    for position, spec in enumerate(specs):
        word, _, size = spec.partition(" x")
        name, _, identifier = word.partition(":")
        count = int(size) if size else tokens
        made.append(
            {
                "sys": Row(position, count, role="system"),
                "user": Row(position, count, role="user", opens_turn=True),
                "asst": Row(position, count, role="assistant"),
                "call": Row(position, count, role="assistant", calls=(identifier,)),
                "tool": Row(position, count, role="tool", answers=(identifier,)),
                "marker": Row(position, count, kind=Kind.MICRO, summary="s"),
            }[name]
        )
    return made


def test_the_head_is_the_opening_system_rows_and_three_messages() -> None:
    view = rows("sys", "sys", "user", "asst", "user", "asst", "user")
    assert head_end(view, RULES) == 5


def test_with_no_protected_messages_system_rows_and_first_request_are_still_in() -> None:
    view = rows("sys", "user", "asst", "user")
    assert head_end(view, rules(first=0)) == 2


def test_a_first_request_of_any_size_is_in_but_nothing_after_it() -> None:
    view = rows("sys", "user x5000", "asst", "user", "asst")
    assert head_end(view, RULES) == 2


def test_the_head_takes_no_message_that_would_make_it_larger_than_the_tail_budget() -> None:
    view = rows("sys", "user", "asst x985", "user", "asst")
    assert head_end(view, RULES) == 2


def test_a_tool_group_at_the_heads_end_is_in_whole_when_it_fits() -> None:
    view = rows("user", "asst", "call:a", "tool:a", "asst")
    assert head_end(view, RULES) == 4


def test_a_tool_group_at_the_heads_end_that_does_not_fit_is_out_whole() -> None:
    view = rows("user", "asst", "call:a", "tool:a x5000", "asst")
    assert head_end(view, RULES) == 2


def test_the_head_ends_before_a_marker() -> None:
    assert head_end(rows("user", "marker", "user", "asst"), RULES) == 1


def test_the_tail_holds_twenty_messages_and_fills_its_budget() -> None:
    assert tail_start(rows(*["asst"] * 200), RULES) == 100
    assert tail_start(rows(*["asst"] * 200, tokens=60), RULES) == 180


@pytest.mark.parametrize(
    ("sizes", "kept"),
    [
        # 20 rows of 75 are exactly one and a half times the budget, of 76 more than that.
        ([75] * 30, 20),
        ([76] * 30, 14),
        ([188] * 30, 6),
        ([5000] * 30, 3),
    ],
)
def test_the_count_floor_falls_when_the_newest_rows_overfill_the_tail(
    sizes: list[int], kept: int
) -> None:
    view = rows(*[f"asst x{size}" for size in sizes])
    assert len(view) - tail_start(view, RULES) == kept


def test_a_huge_row_beyond_the_budget_stays_outside_the_tail() -> None:
    view = rows("user", "asst x90000", *["asst"] * 20)
    assert tail_start(view, RULES) == 2


def test_a_group_that_the_tail_would_cut_is_in_it_whole() -> None:
    view = rows("user", "call:a", "tool:a", "call:b", *["tool:b"] + ["asst"] * 19, tokens=60)
    assert tail_start(view, RULES) == 3


def test_seven_parallel_results_stay_with_their_call() -> None:
    view = rows("user", *["asst"] * 40, tokens=60)
    call = Row(41, 60, role="assistant", calls=tuple("abcdefg"))
    results = [Row(42 + i, 60, role="tool", answers=(c,)) for i, c in enumerate("abcdefg")]
    last = [Row(49 + i, 60, role="assistant") for i in range(17)]
    whole = [*view, call, *results, *last]
    assert tail_start(whole, RULES) == 41


def test_the_tail_starts_behind_the_last_marker() -> None:
    assert tail_start(rows("user", "asst", "marker", "user", "asst"), RULES) == 3


def test_the_newest_request_is_held_when_its_turn_is_longer_than_the_tail() -> None:
    view = rows("sys", "user", "asst", "user", "asst", "user", *["call:x", "tool:x"] * 60)
    regions = find_regions(view, rules(last=20, budget=300))
    assert 5 in regions.held
    assert 5 not in regions.middle
    assert regions.middle, "the long turn can still be compacted"


def test_more_newest_requests_are_held_on_demand() -> None:
    view = rows(*["user", "asst"] * 50)
    regions = find_regions(view, rules(last=4, users=10, budget=40))
    newest = [i for i, row in enumerate(view) if row.opens_turn][-10:]
    assert not set(newest) & set(regions.middle)


def test_an_old_call_that_was_never_answered_blocks_nothing_but_itself() -> None:
    view = rows("user", "asst", "user", "call:lost", *["user", "asst"] * 60, tokens=30)
    regions = find_regions(view, rules(last=4))
    assert 3 not in regions.middle
    assert len(regions.middle) > 40


def test_a_late_result_in_the_tail_holds_only_its_call() -> None:
    view = rows(
        "user", "asst", "user", "call:a", *["user", "asst"] * 60, "tool:a", "asst", tokens=30
    )
    regions = find_regions(view, rules(last=4))
    assert 3 in regions.held
    assert len(regions.middle) > 40


def uncut(view: Sequence[Row], middle: set[int]) -> bool:
    return all(
        middle.issuperset(group.members) or middle.isdisjoint(group.members)
        for group in tool_groups(view)
    )


@examples(150)
@given(
    view=st.one_of(views(), any_transcripts().map(lambda t: rows_of(t.messages, t.origins))),
    numbers=st.builds(
        RegionRules,
        st.integers(0, 6),
        st.integers(1, 24),
        st.integers(0, 3),
        st.sampled_from((0, 20, 200, 2000, 20_000)),
    ),
)
def test_regions_never_cut_a_group_and_never_compact_what_is_protected(
    view: list[Row], numbers: RegionRules
) -> None:
    regions = find_regions(view, numbers)
    middle = set(regions.middle)
    assert 0 <= regions.head_end <= regions.tail_start <= len(view)
    assert uncut(view, middle)
    assert not any(group.unanswered and middle & set(group.members) for group in tool_groups(view))
    assert not any(is_system(view[i]) for i in middle)
    outside = [*view[: regions.head_end], *view[regions.tail_start :]]
    assert not any(row.kind.is_marker for row in outside)
    requests = [i for i, row in enumerate(view) if row.opens_turn]
    protected = set(requests[:1])
    if numbers.min_tail_user_messages:
        protected |= set(requests[-numbers.min_tail_user_messages :])
    assert not protected & middle


@given(view=views(), extra=st.integers(0, 40), budget=st.sampled_from((0, 50, 500, 5000)))
def test_a_part_of_the_view_gives_the_same_head_and_tail_or_says_that_it_is_too_short(
    view: list[Row], extra: int, budget: int
) -> None:
    numbers = rules(last=5, budget=budget)
    extra = min(extra, len(view))
    beginning, end = view[:extra], view[len(view) - extra :] if extra else []
    found = head_end(beginning, numbers, complete=False)
    assert found == len(beginning) or found == head_end(view, numbers)
    started = tail_start(end, numbers)
    assert started == 0 or started + len(view) - extra == tail_start(view, numbers)
