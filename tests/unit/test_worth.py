"""How much a line is worth keeping."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.worth import worth


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
    assert worth(line) == 0


@pytest.mark.parametrize(
    ("telling", "idle"),
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
def test_a_telling_line_is_worth_more_than_one_like_it(telling: str, idle: str) -> None:
    assert worth(telling) > worth(idle)


def test_a_rule_with_particulars_is_worth_more_than_either() -> None:
    both = worth("Never pay more than $500 to Ann Smith.")
    assert both > worth("Never pay more than that to them.")
    assert both > worth("They paid $500 to Ann Smith.")


def test_repeating_a_code_adds_nothing() -> None:
    assert worth("HAT045 HAT045 HAT045") == worth("HAT045")


@given(st.text(max_size=300))
def test_any_line_is_weighed_within_bounds(line: str) -> None:
    assert 0 <= worth(line) <= 14
