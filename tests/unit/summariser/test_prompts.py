"""The prompts of a summariser."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.summariser.contract import Passage, SummaryRequest, Task
from workers.summariser.passages import FENCE, passages_size
from workers.summariser.prompts import TEMPLATE_VERSION, chat_messages

REQUEST = SummaryRequest(
    task=Task.ABSORB,
    previous="The agent found reservation HAT045.",
    question="Please cancel HAT045 and tell me the refund.",
    passages=(
        Passage("assistant", "Cancelling it.", (("cancel", '{"id":"HAT045"}'),)),
        Passage("tool cancel", '{"refund": 157}'),
    ),
    target_tokens=640,
    replaced_tokens=3210,
    today=date(2026, 11, 30),
)


def system(request: SummaryRequest) -> str:
    return chat_messages(request)[0]["content"]


def data(request: SummaryRequest) -> str:
    return chat_messages(request)[1]["content"]


def test_there_is_one_system_message_with_rules_and_one_user_message_with_data() -> None:
    assert [message["role"] for message in chat_messages(REQUEST)] == ["system", "user"]
    for given_text in (REQUEST.previous, REQUEST.question, "Cancelling it.", '{"refund": 157}'):
        assert given_text in data(REQUEST)
        assert given_text not in system(REQUEST)


def test_the_rules_name_size_and_date() -> None:
    assert "2026-11-30" in system(REQUEST)
    assert "640" in system(REQUEST)
    assert "3210" in system(REQUEST)


def test_never_is_more_asked_for_than_may_be_accepted() -> None:
    rules = system(replace(REQUEST, target_tokens=2000, replaced_tokens=400))
    assert "about 300 tokens" in rules


def test_absorb_asks_for_an_update_and_defrag_for_less() -> None:
    assert "Update the previous summary" in system(REQUEST)
    defrag = replace(REQUEST, task=Task.DEFRAG, question="", passages=())
    assert "much shorter" in system(defrag)
    assert "messages to take in" not in data(defrag)


@pytest.mark.parametrize(
    ("question", "script"),
    [("请帮我取消这个预订", "Chinese"), ("Отмените бронь, пожалуйста", "Cyrillic")],
)
def test_the_script_of_the_user_is_named(question: str, script: str) -> None:
    assert f"here in {script} script" in system(replace(REQUEST, question=question))


def test_the_same_request_gives_the_same_messages() -> None:
    assert chat_messages(REQUEST) == chat_messages(replace(REQUEST))


def test_other_data_gets_another_mark() -> None:
    marks = {
        re.findall(r"\[([0-9a-f]{12}) begin\]", data(request))[0]
        for request in (REQUEST, replace(REQUEST, previous="x"), replace(REQUEST, question="x"))
    }
    assert len(marks) == 3


@given(st.text(st.characters(codec=None), max_size=300))
def test_no_text_closes_the_fence_or_makes_a_heading(text: str) -> None:
    request = replace(REQUEST, passages=(Passage("tool x", text),))
    written = data(request)
    mark = re.findall(r"\[([0-9a-f]{12}) begin\]", written)[0]
    assert written.count(f"[{mark} begin]") == written.count(f"[{mark} end]") == 3
    assert written.count(f"[{mark}] ") == 1


def test_a_fence_copied_from_another_prompt_is_only_data() -> None:
    hostile = data(REQUEST)
    request = replace(REQUEST, passages=(Passage("tool x", hostile),))
    mark = re.findall(r"\[([0-9a-f]{12}) begin\]", data(request))[0]
    assert mark not in hostile


def test_a_repeated_prompt_is_recognised() -> None:
    assert FENCE.search(data(REQUEST))
    assert not FENCE.search("- [2026-11-30 begin] a log line")


@pytest.mark.parametrize("text", ["\ud800", "a\udc00b", "\x00"])
def test_the_messages_can_be_sent_as_utf_8(text: str) -> None:
    request = replace(REQUEST, previous=text, question=text, passages=(Passage("user", text),))
    for message in chat_messages(request):
        assert "\x00" not in message["content"]
        message["content"].encode("utf-8")


def test_the_passages_take_the_room_that_was_reckoned_with() -> None:
    with_passages = len(data(REQUEST))
    without = len(data(replace(REQUEST, passages=())))
    assert passages_size(REQUEST.passages) <= with_passages - without
    assert with_passages - without <= passages_size(REQUEST.passages) + 120


def test_the_template_has_a_version() -> None:
    assert re.fullmatch(r"micro-\d+", TEMPLATE_VERSION)
