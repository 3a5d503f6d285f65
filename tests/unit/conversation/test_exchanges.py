"""Which exchanges a micro pass takes."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from storage.conversations.rows import Origin, Row
from tests.support.sessions.strategies import Transcript, any_transcripts, rows_of
from tests.tiers import examples
from workers.conversation.exchanges import Found, LookFurther, TooLittle, find_exchanges
from workers.conversation.transcript import is_kept_by_micro, tool_groups

FAR = 10_000


def user(position: int, tokens: int = 10) -> Row:
    return Row(position, tokens, role="user", origin=Origin.PERSON, opens_turn=True)


def reply(position: int, tokens: int = 100) -> Row:
    return Row(position, tokens, role="assistant")


def call(position: int, identifier: str, tokens: int = 50) -> Row:
    return Row(position, tokens, role="assistant", calls=(identifier,))


def result(position: int, identifier: str, tokens: int = 50) -> Row:
    return Row(position, tokens, role="tool", answers=(identifier,))


def find(rows: list[Row], limit: int = FAR, **more: Any) -> Found | TooLittle | LookFurther:
    settings = {"min_tokens": 0, "tail_budget": 1000, "complete": True, **more}
    return find_exchanges(rows, limit=limit, **settings)


def taken(found: Found | TooLittle | LookFurther) -> list[int]:
    assert isinstance(found, Found)
    return [r.position for e in found.exchanges for unit in e.units for r in unit.rows]


def test_the_oldest_exchange_is_taken_without_its_request() -> None:
    rows = [user(0), call(1, "a"), result(2, "a"), reply(3), user(4), reply(5), user(6)]
    found = find(rows)
    assert taken(found) == [1, 2, 3]
    assert isinstance(found, Found)
    assert found.exchanges[0].question == rows[0]


def test_exchanges_are_taken_until_they_hold_enough_together() -> None:
    rows = [user(0), reply(1), user(2), reply(3), user(4), reply(5), user(6), reply(7), user(8)]
    assert taken(find(rows, min_tokens=250)) == [1, 3, 5]


def test_less_than_enough_is_nothing() -> None:
    rows = [user(0), reply(1), user(2), reply(3), user(4)]
    assert find(rows, min_tokens=201) == TooLittle(200)


def test_an_exchange_that_reaches_into_the_tail_waits() -> None:
    rows = [user(0), reply(1), reply(2), user(3), reply(4)]
    assert find(rows, limit=2) == TooLittle(0)


def test_a_turn_longer_than_the_tail_is_cut_between_its_tool_groups() -> None:
    rows = [user(0)]
    for number in range(20):
        rows += [call(1 + 2 * number, f"c{number}"), result(2 + 2 * number, f"c{number}")]
    assert taken(find(rows, limit=12, tail_budget=300)) == list(range(1, 11))


def test_notices_of_the_runtime_go_with_their_exchange() -> None:
    notice = Row(2, 30, role="user", origin=Origin.RUNTIME)
    assert taken(find([user(0), reply(1), notice, reply(3), user(4)])) == [1, 2, 3]


def test_what_a_person_wrote_stays_even_when_it_is_blank() -> None:
    blank = Row(2, 4, role="user", origin=Origin.PERSON)
    assert taken(find([user(0), reply(1), blank, reply(3), user(4)])) == [1, 3]


def test_system_rows_in_the_middle_stay() -> None:
    system = Row(2, 40, role="system")
    assert taken(find([user(0), reply(1), system, reply(3), user(4)])) == [1, 3]


def test_a_call_that_waits_for_its_result_stays() -> None:
    rows = [user(0), call(1, "lost"), reply(2), user(3)]
    assert taken(find(rows)) == [2]


def test_a_result_whose_call_is_live_before_the_rows_stays() -> None:
    rows = [user(0), result(1, "early"), reply(2), user(3)]
    assert taken(find(rows, answered_elsewhere={"early"})) == [2]
    assert taken(find(rows)) == [1, 2]


def test_more_rows_are_asked_for_when_the_end_of_a_turn_is_not_in_sight() -> None:
    rows = [user(0), reply(1), reply(2)]
    assert find(rows, complete=False) == LookFurther()
    assert isinstance(find(rows, complete=True), Found)


def test_a_group_that_waits_at_the_edge_of_what_was_read_is_not_passed_by() -> None:
    rows = [user(0), *(reply(i) for i in range(1, 20)), call(20, "a"), reply(21)]
    found = find(rows, complete=False, tail_budget=300)
    assert taken(found) == list(range(1, 20))
    assert isinstance(found, Found)
    assert found.exchanges[0].end == 20


@examples(150)
@given(
    transcript=any_transcripts(),
    limit=st.integers(0, 120),
    min_tokens=st.sampled_from((0, 50, 1000)),
    tail_budget=st.sampled_from((10, 200, 5000)),
    page=st.integers(1, 200),
)
def test_what_is_taken_may_be_taken_and_a_page_gives_the_same_as_the_whole(
    transcript: Transcript, limit: int, min_tokens: int, tail_budget: int, page: int
) -> None:
    rows = rows_of(transcript.messages, transcript.origins)
    whole = find(rows, limit, min_tokens=min_tokens, tail_budget=tail_budget)
    if isinstance(whole, Found):
        positions = set(taken(whole))
        assert all(position < limit for position in positions)
        assert not any(is_kept_by_micro(rows[position]) for position in positions)
        assert sum(rows[position].tokens for position in positions) >= min_tokens
        for group in tool_groups(rows):
            inside = positions & set(group.members)
            assert not inside or (inside == set(group.members) and not group.unanswered)
    part = find(
        rows[:page],
        limit,
        min_tokens=min_tokens,
        tail_budget=tail_budget,
        complete=page >= len(rows),
    )
    # A second result of a call that has one already cannot be foreseen from what comes before it.
    surprised = any(
        group.call < page <= group.last and not shown.unanswered
        for group, shown in zip(tool_groups(rows), tool_groups(rows[:page]), strict=False)
    )
    if isinstance(part, Found) and isinstance(whole, Found) and not surprised:
        assert set(taken(part)) <= set(taken(whole))
