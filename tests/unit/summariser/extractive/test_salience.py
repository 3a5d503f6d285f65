"""What a line is worth, and whether it concerns a topic."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.summariser.extractive.salience import concerns, salience, terms_of


@pytest.mark.parametrize(
    "line",
    [
        "",
        "Thank you very much!",
        "Let me have a look at that.",
        "I don't remember.",
        "No problem at all.",
        "好的，谢谢你！",
        "Спасибо большое!",
    ],
)
def test_idle_talk_is_worth_nothing(line: str) -> None:
    assert salience(line) == 0


@pytest.mark.parametrize(
    ("particular", "idle"),
    [
        ("Never push to the main branch.", "We talked about the main branch."),
        ("Do not send it to anyone.", "I do not know who sent it."),
        ("If a test fails, stop and ask.", "A test is there for that."),
        ("I prefer short sentences.", "Those were short sentences."),
        ("Spend at most $500.", "Spend some money."),
        ("The run failed: connection refused.", "The run went well enough."),
        ("We decided to wait.", "We had to wait."),
        ("The booking is HAT045.", "The booking is there."),
        ("It is in src/app/main.py.", "It is in the file."),
        ("Ask Ann Smith about it.", "Ask somebody about it."),
        ("必须用中文回答。", "他用中文回答了。"),
        ("Никогда не удаляй файлы.", "Мы видели файлы."),
    ],
)
def test_a_line_with_particulars_is_worth_more_than_one_without(particular: str, idle: str) -> None:
    assert salience(particular) > salience(idle)


def test_a_rule_with_particulars_is_worth_more_than_either() -> None:
    both = salience("Never pay more than $500 to Ann Smith.")
    assert both > salience("Never pay more than that to them.")
    assert both > salience("They paid $500 to Ann Smith.")


def test_repeating_a_code_adds_nothing() -> None:
    assert salience("HAT045 HAT045 HAT045") == salience("HAT045")


@given(st.text(max_size=300))
def test_any_line_is_weighed_within_bounds(line: str) -> None:
    assert 0 <= salience(line) <= 14


@pytest.mark.parametrize(
    ("topic", "line"),
    [
        ("refunds", "The refund of $103 was confirmed."),
        ("all about the API of billing", "Billing was switched off."),
        ("all about the API of billing", "The api key was renewed."),
        ("step 12", "12 rows were found."),
        ("退款政策", "助手确认了退款。"),
        ("рейс", "Рейс перенесён."),
        ("환불", "환불이 확인되었다."),
    ],
)
def test_a_line_that_names_it_concerns_it(topic: str, line: str) -> None:
    assert concerns(line, terms_of(topic))


@pytest.mark.parametrize(
    ("topic", "line"),
    [
        ("refunds of that", "The bags of that user were added."),
        ("what was from there", "What was there was from the tool."),
        ("退款政策", "助手订了航班。"),
    ],
)
def test_other_lines_do_not(topic: str, line: str) -> None:
    assert not concerns(line, terms_of(topic))


@pytest.mark.parametrize("topic", ["", "  ", "of a", "—", "all about this and that"])
def test_a_topic_that_says_nothing_has_no_terms(topic: str) -> None:
    assert terms_of(topic) == frozenset()
