"""Which lines concern a topic."""

from __future__ import annotations

import pytest

from workers.summariser.extractive.salience import concerns, terms_of


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
