"""Dividing what does not fit into one request."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.conversations.rows import Row
from tests.support.sessions.conversations import turn
from tests.support.sessions.strategies import Transcript, rows_of, transcripts
from tests.tiers import examples
from workers.batch.requests import batches, split
from workers.conversation.transcript import tool_groups
from workers.summariser.passages import passages, passages_size

ROOMS = (1_000, 4_000, 20_000)


def size(rows: Sequence[Row]) -> int:
    """Return characters that rows take in a prompt of their own."""
    return passages_size(passages(rows))


def positions(parts: Sequence[Sequence[Row]]) -> list[list[int]]:
    return [[row.position for row in part] for part in parts]


def rows(*turns: list[dict[str, object]]) -> list[Row]:
    return rows_of([message for one in turns for message in one])


def test_what_fits_is_one_part() -> None:
    given_rows = rows(turn(1), turn(2))
    assert split(given_rows, size(given_rows)) == [given_rows]
    assert len(split(given_rows, size(given_rows) - 1)) == 2


def test_exchanges_are_taken_together_as_far_as_they_fit() -> None:
    given_rows = rows(*(turn(number) for number in range(5)))
    room = size(given_rows[:8])
    assert positions(split(given_rows, room)) == [
        [*range(8)],
        [*range(8, 16)],
        [*range(16, 20)],
    ]


def test_one_exchange_that_is_too_large_is_cut_between_its_tool_groups() -> None:
    given_rows = rows(turn(0), turn(1, tools=4), turn(2))
    room = size(given_rows[:4])
    parts = split(given_rows, room)
    assert positions(parts)[0] == [0, 1, 2, 3]
    assert all(size(part) <= room for part in parts)
    # The request and the first group; a call is always with its result.
    assert positions(parts)[1] == [4, 5, 6]
    assert [row.calls == () for row in given_rows[4:13]] == [
        True,
        *[False, True] * 4,
    ]
    assert all(part[0].answers == () for part in parts)


def test_a_single_group_that_is_too_large_is_a_part_of_its_own() -> None:
    given_rows = rows(turn(0), turn(1, words=2_000), turn(2))
    room = size(given_rows[:4])
    parts = split(given_rows, room)
    (large,) = [part for part in parts if size(part) > room and len(part) > 1]
    assert positions([large]) == [[5, 6]]


def test_nothing_is_no_part() -> None:
    assert split([], 1_000) == []


def inseparable(part: Sequence[Row]) -> bool:
    """Return whether no cut inside keeps every tool group whole."""
    inside = {i for one in tool_groups(part) for i in range(one.call + 1, one.last + 1)}
    return inside == set(range(1, len(part)))


@examples(50)
@given(transcript=transcripts(max_turns=8), room=st.sampled_from(ROOMS))
def test_parts_are_the_whole_and_each_fits_or_cannot_be_cut(
    transcript: Transcript, room: int
) -> None:
    given_rows = rows_of(transcript.messages, transcript.origins)
    parts = split(given_rows, room)
    assert [row for part in parts for row in part] == given_rows
    assert all(parts)
    for part in parts:
        assert size(part) <= room or inseparable(part)


@examples(50)
@given(transcript=transcripts(max_turns=8), room=st.sampled_from(ROOMS))
def test_cuts_are_at_borders_of_exchanges_and_inside_only_of_one_that_is_too_large(
    transcript: Transcript, room: int
) -> None:
    given_rows = rows_of(transcript.messages, transcript.origins)
    starts = [i for i, row in enumerate(given_rows) if row.opens_turn]
    place = 0
    for part in split(given_rows, room)[:-1]:
        place += len(part)
        if given_rows[place].opens_turn:
            continue
        first = max((i for i in starts if i < place), default=0)
        last = min((i for i in starts if i > place), default=len(given_rows))
        exchange = given_rows[first:last]
        assert size(exchange) > room
        cut = place - first
        assert not any(one.call < cut <= one.last for one in tool_groups(exchange))


TEXTS = st.lists(st.integers(0, 900).map(lambda n: "x" * n), max_size=30)


@given(texts=TEXTS, room=st.sampled_from((0, 500, 2_000)))
def test_groups_of_texts_are_the_whole_and_come_to_an_end(texts: list[str], room: int) -> None:
    groups = batches(texts, room)
    assert [text for group in groups for text in group] == texts
    assert all(len(group) >= 2 for group in groups[:-1])
    assert all(len(group) <= 2 or sum(map(len, group)) <= room for group in groups)
    assert len(groups) <= (len(texts) + 1) // 2


@pytest.mark.parametrize(("room", "sizes"), [(30, [3, 3]), (25, [2, 2, 2]), (5, [2, 2, 2])])
def test_texts_are_grouped_as_far_as_they_fit(room: int, sizes: list[int]) -> None:
    assert [len(group) for group in batches(["x" * 10] * 6, room)] == sizes
