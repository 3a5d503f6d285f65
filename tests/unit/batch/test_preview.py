"""A pass before it runs, in figures."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.conversations.rows import Kind, Row
from tests.support.sessions.conversations import turn
from tests.support.sessions.session_records import session_record
from tests.support.sessions.strategies import marker_row, rows_of, views
from tests.tiers import examples
from workers.batch.plan import BatchPlan, Material
from workers.batch.preview import Portion, Portions, expected_requests, preview
from workers.batch.requests import Requests, write_requests
from workers.batch.span import CompactionOptions, divide
from workers.conversation.markers import frame_tokens
from workers.conversation.regions import RegionRules
from workers.conversation.tokens import estimate_text
from workers.policy.calibration import Calibration
from workers.policy.threshold import Threshold
from workers.policy.triggers import RULES, Trigger

RULES_OF_REGIONS = RegionRules(
    protect_first_n=3, protect_last_n=8, min_tail_user_messages=1, tail_budget=800
)
DESK = [message for number in range(16) for message in turn(number)]


def planned(
    view: Sequence[Row], *, verbatim: str = "", target: int = 300, calibration: str | None = None
) -> BatchPlan:
    regions, span = divide(
        view, RULES_OF_REGIONS, RULES[Trigger.MANUAL], CompactionOptions(), turn_open=False
    )
    return BatchPlan(
        session=session_record(calibration=calibration),
        threshold=Threshold(4000, 0.75, "of the test"),
        view=tuple(view),
        regions=regions,
        span=span,
        verbatim=verbatim,
        target_tokens=target,
        cursor_before=0,
    )


def asked(rows: Sequence[Row], room: int, *, target: int = 300) -> Requests:
    return write_requests(
        Material(tuple(rows), ""),
        target_tokens=target,
        replaced_tokens=sum(row.tokens for row in rows),
        room=lambda _: room,
        most_room=None,
        focus="",
        today=date(2026, 11, 30),
    )


@given(views(), st.sampled_from([Trigger.MANUAL, Trigger.IDLE]), st.booleans())
def test_every_row_of_the_view_is_in_exactly_one_part(
    view: list[Row], trigger: Trigger, turn_open: bool
) -> None:
    regions, span = divide(
        view, RULES_OF_REGIONS, RULES[trigger], CompactionOptions(), turn_open=turn_open
    )
    parts = Portions.of(view, regions, span)
    four = (parts.head, parts.leaving, parts.held, parts.tail)
    for name in ("messages", "by_users", "markers", "tokens", "rows"):
        assert sum(getattr(part, name) for part in four) == getattr(parts.view, name)
    assert parts.view.rows == len(view)


def test_an_empty_part_has_no_positions() -> None:
    assert Portion.of([]) == Portion(0, 0, 0, 0, None, None)
    one = Portion.of(rows_of(DESK)[4:5])
    assert (one.messages, one.by_users, one.first, one.last) == (1, 1, 4, 4)


def test_the_summary_takes_the_place_of_what_leaves() -> None:
    view = rows_of(DESK)
    plan = planned(view, verbatim="> quoted words of a user")
    seen = preview(plan, asked(plan.span.messages, 160_000))
    quoted = estimate_text(plan.verbatim)
    assert seen.summary_tokens == 300 + quoted + frame_tokens()
    assert seen.verbatim_tokens == quoted
    assert seen.tokens_after == seen.tokens_before - plan.span.tokens + seen.summary_tokens
    assert seen.saved_tokens == plan.span.tokens - seen.summary_tokens > 0
    assert seen.rows_after == len(view) - len(plan.span.messages) + 1
    assert seen.occupancy == seen.tokens_before / 4000
    assert seen.occupancy_after == seen.tokens_after / 4000
    assert seen.replaced == ()
    assert seen.requests == 1


def test_occupancy_counts_as_the_provider_does_once_it_has_reported() -> None:
    learned = Calibration(additive=1000, ratio=1.5, samples=3, doubt=(1.0, 0.0, 1.0))
    plan = planned(rows_of(DESK), calibration=learned.dump())
    seen = preview(plan, asked(plan.span.messages, 160_000))
    assert seen.occupancy == (1000 + round(1.5 * seen.tokens_before)) / 4000
    assert seen.occupancy_after == (1000 + round(1.5 * seen.tokens_after)) / 4000


def test_markers_that_leave_are_named_and_their_tokens_count() -> None:
    rows = rows_of(DESK)
    batch = marker_row(Kind.BATCH, 5, "What was before. " * 50)
    micro = marker_row(Kind.MICRO, 9, "What was absorbed. " * 50, summary_id=2)
    view = [*rows[:4], batch, *rows[6:10], micro, *rows[10:]]
    plan = planned(view)
    seen = preview(plan, asked(plan.span.messages, 160_000))
    assert seen.replaced == (Kind.BATCH, Kind.MICRO)
    assert seen.parts.leaving.markers == 2
    assert seen.parts.leaving.tokens == plan.span.tokens
    assert seen.rows_after == len(view) - len(plan.span.messages) - 1


def test_user_messages_are_left_out_where_the_summary_would_not_be_smaller_with_them() -> None:
    view = rows_of(DESK)
    leaving = planned(view).span.tokens
    just = "> " + "word " * leaving
    seen = preview(planned(view, verbatim=just), asked(view[4:20], 160_000))
    assert seen.verbatim_tokens == 0
    assert seen.summary_tokens == 300 + frame_tokens()


def test_a_summary_that_cannot_be_smaller_saves_nothing() -> None:
    plan = planned(rows_of(DESK), target=10_000)
    assert preview(plan, asked(plan.span.messages, 160_000)).saved_tokens < 0


@pytest.mark.parametrize(
    ("room", "parts", "requests"),
    [
        (100_000, 1, 1),
        (10_000, 3, 4),  # the parts, and one that joins them
        (5_000, 6, 9),  # joined as four and two, then those two
        (1_700, 16, 31),  # joined in pairs, again and again
    ],
)
def test_parts_and_what_joins_them_are_counted(room: int, parts: int, requests: int) -> None:
    given_requests = asked(rows_of(DESK), room)
    assert len(given_requests.parts) == parts
    assert expected_requests(given_requests) == requests


@examples(30)
@given(st.integers(1_000, 30_000))
def test_the_count_is_what_answers_of_the_size_that_is_asked_for_would_take(room: int) -> None:
    requests = asked(rows_of(DESK), room)
    sent, texts = 0, list[str]()
    for one in requests.parts:
        sent += 1
        texts.append("x" * (4 * one.request.target_tokens))
    while len(texts) > 1:
        groups = requests.groups(texts)
        texts = []
        for group in groups:
            if len(group) == 1:
                texts.append(group[0])
                continue
            sent += 1
            joined = requests.join(group, last=len(groups) == 1)
            texts.append("x" * (4 * joined.request.target_tokens))
    assert expected_requests(requests) == sent
