"""The prompts for a structured summary."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.conversation.tokens import estimate_text
from workers.summariser.contract import Passage, SummaryRequest, Task
from workers.summariser.headings import Section, outline
from workers.summariser.passages import INSTRUCTION_TOKENS
from workers.summariser.prompts import chat_messages
from workers.summariser.structured_prompts import BATCH_TEMPLATE_VERSION

BATCH = SummaryRequest(
    task=Task.BATCH,
    previous="## Goal\nThe user wanted HAT045 moved.",
    question="",
    passages=(
        Passage("user", "Please cancel HAT045 and tell me the refund."),
        Passage("assistant", "Cancelling it.", (("cancel", '{"id":"HAT045"}'),)),
        Passage("tool cancel", '{"refund": 157}'),
    ),
    target_tokens=2_345,
    replaced_tokens=43_210,
    today=date(2026, 11, 30),
)
MERGE = replace(
    BATCH,
    task=Task.MERGE,
    passages=(Passage("part 1", "## Goal\nMoving."), Passage("part 2", "## Goal\nCancelling.")),
)


def system(request: SummaryRequest) -> str:
    return chat_messages(request)[0]["content"]


def data(request: SummaryRequest) -> str:
    return chat_messages(request)[1]["content"]


@pytest.mark.parametrize("request_", [BATCH, MERGE])
def test_rules_and_data_are_apart(request_: SummaryRequest) -> None:
    assert [message["role"] for message in chat_messages(request_)] == ["system", "user"]
    for one in request_.passages:
        assert one.text in data(request_)
        assert one.text not in system(request_)


@pytest.mark.parametrize("request_", [BATCH, MERGE])
def test_the_template_holds_the_seven_headings_in_order(request_: SummaryRequest) -> None:
    lines = [line.text for line in outline(system(request_)) if line.text.startswith("## ")]
    assert lines == [section.heading for section in Section]


def test_size_and_date_stand_in_the_prompt() -> None:
    assert "about 2345 tokens" in system(BATCH)
    assert "below 4690" in system(BATCH)
    assert "2026-11-30" in system(BATCH)


def test_never_is_more_asked_for_than_may_be_accepted() -> None:
    rules = system(replace(BATCH, replaced_tokens=400))
    assert "about 300 tokens" in rules
    assert "below 400" in rules


@pytest.mark.parametrize("request_", [BATCH, MERGE, replace(BATCH, focus="refunds")])
def test_the_instructions_fit_in_the_room_reserved_for_them(request_: SummaryRequest) -> None:
    assert estimate_text(system(request_)) < INSTRUCTION_TOKENS // 2


def test_a_previous_summary_is_updated_and_its_numbers_go_on() -> None:
    assert "update the previous summary" in system(BATCH)
    assert "numbering of Progress goes on" in system(BATCH)
    assert BATCH.previous in data(BATCH)


def test_without_a_previous_summary_none_is_spoken_of_as_there() -> None:
    first = replace(BATCH, previous="")
    assert "previous summary" not in system(first)
    assert "previous summary" not in data(first)
    assert "previous summary" not in system(replace(MERGE, previous=""))


def test_parts_are_joined_in_their_order() -> None:
    rules = system(MERGE)
    assert "consecutive parts of one stretch" in rules
    assert "Lose no name, id, number, path" in rules
    assert "previous summary tells what came before" in rules
    assert data(MERGE).index("part 1") < data(MERGE).index("part 2")


def test_a_focus_topic_is_data_and_gets_most_of_the_room() -> None:
    focused = replace(BATCH, focus="refunds of May")
    assert "60 to 70 %" in system(focused)
    assert "refunds of May" in data(focused)
    assert "refunds of May" not in system(focused)
    assert "60 to 70 %" not in system(BATCH)


def test_where_no_user_speaks_nothing_may_be_reported_as_said_by_one() -> None:
    lonely = replace(BATCH, passages=BATCH.passages[1:])
    assert "No message below is from the user" in system(lonely)
    assert "unless the previous summary does" in system(lonely)
    assert "unless" not in system(replace(lonely, previous=""))
    assert "No message below is from the user" not in system(BATCH)
    asked = replace(lonely, question="Please cancel HAT045.")
    assert "No message below is from the user" not in system(asked)
    assert "the request given as context" in system(asked)


@pytest.mark.parametrize(
    ("said", "script"),
    [("请帮我取消这个预订", "Chinese"), ("Отмените бронь, пожалуйста", "Cyrillic")],
)
def test_the_script_of_the_user_is_named(said: str, script: str) -> None:
    request = replace(BATCH, passages=(Passage("user", said), *BATCH.passages[1:]))
    assert f"here in {script} script" in system(request)


def test_the_script_of_the_parts_is_named_where_no_user_is_heard() -> None:
    parts = (Passage("part 1", "## Goal\n用户要求取消预订，助手查询之后取消了它。"),)
    assert "here in Chinese script" in system(replace(MERGE, passages=parts))


def test_other_data_gets_another_mark() -> None:
    requests = (BATCH, replace(BATCH, previous="x"), replace(BATCH, focus="x"), MERGE)
    marks = {re.findall(r"\[([0-9a-f]{12}) begin\]", data(one))[0] for one in requests}
    assert len(marks) == 4


@given(st.text(st.characters(codec=None), max_size=300))
def test_no_text_closes_the_fence_and_all_can_be_sent(text: str) -> None:
    request = replace(
        BATCH, previous=text or "x", focus=text or "x", passages=(Passage("tool x", text),)
    )
    written = data(request)
    mark = re.findall(r"\[([0-9a-f]{12}) begin\]", written)[0]
    assert written.count(f"[{mark} begin]") == written.count(f"[{mark} end]") == 3
    assert written.count(f"[{mark}] ") == 1
    written.encode("utf-8")


def test_the_template_has_a_version() -> None:
    assert BATCH_TEMPLATE_VERSION == "batch-1"
