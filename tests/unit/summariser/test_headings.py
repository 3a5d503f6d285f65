"""How the headings of a structured summary are recognised."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.summariser.headings import Section, as_progress, body, missing_headings, outline

PLAIN = "\n".join(section.heading for section in Section)


def opened(line: str) -> Section | None:
    """Return the section that a line opens, if it opens one."""
    return next((one.opens for one in outline(line) if one.opens), None)


def test_the_seven_sections_are_those_of_the_specification() -> None:
    assert [section.value for section in Section] == [
        "Goal",
        "Constraints and preferences",
        "Progress",
        "Key decisions",
        "Files and artifacts",
        "Open questions",
        "State when compacted",
    ]


def test_nothing_is_missing_where_all_headings_stand() -> None:
    assert missing_headings(PLAIN) == ()


@pytest.mark.parametrize("section", Section)
def test_a_heading_that_is_not_there_is_named(section: Section) -> None:
    assert missing_headings(PLAIN.replace(section.heading, "")) == (section.value,)


def test_everything_is_missing_in_prose() -> None:
    text = "The goal was met, progress was made and no open questions were left."
    assert missing_headings(text) == tuple(section.value for section in Section)


@pytest.mark.parametrize("section", Section)
@pytest.mark.parametrize(
    "form",
    [
        "{}",
        "{}:",
        "# {}",
        "###### {} ######",
        "**{}**",
        "**{}:**",
        "__{}__:",
        "## **{}**",
        "1. {}",
        "## 3) {}",
        "**2. {}**",
        "- **{}**",
        "[{}]",
        "【{}】",
        "## 🎯 {}",
        "## {} (so far)",
        "  {}  ",
        "=== {} ===",
    ],
)
def test_the_forms_of_markdown_are_recognised(section: Section, form: str) -> None:
    for name in (section.value, section.value.upper(), section.value.replace(" and ", " & ")):
        assert opened(form.format(name)) is section


@pytest.mark.parametrize(
    ("line", "section", "rest"),
    [
        ("Goal: move HAT045", Section.GOAL, "move HAT045"),
        ("**Goal:** move HAT045", Section.GOAL, "move HAT045"),
        ("**Goal**: move HAT045", Section.GOAL, "move HAT045"),
        ("- **Key decisions:** none", Section.DECISIONS, "none"),
        ("## Files and artifacts: `a.py`", Section.FILES, "`a.py`"),
        ("3. Progress: two steps", Section.PROGRESS, "two steps"),
        ("目标：找一家餐馆", Section.GOAL, "找一家餐馆"),
    ],
)
def test_text_behind_a_heading_is_a_line_of_its_own(line: str, section: Section, rest: str) -> None:
    assert [(one.text, one.opens) for one in outline(line)] == [
        (section.heading, section),
        (rest, None),
    ]


@pytest.mark.parametrize(
    ("line", "section"),
    [
        ("## 目标", Section.GOAL),
        ("**用户目標**", Section.GOAL),
        ("## 约束与偏好", Section.CONSTRAINTS),
        ("限制和偏好：", Section.CONSTRAINTS),
        ("三、进展", Section.PROGRESS),
        ("## 进展", Section.PROGRESS),
        ("## 进度", Section.PROGRESS),
        ("## 关键决策", Section.DECISIONS),
        ("## 重要决定", Section.DECISIONS),
        ("## 文件与产物", Section.FILES),
        ("## 文件和工件", Section.FILES),
        ("## 未决问题", Section.QUESTIONS),
        ("## 待解决的问题", Section.QUESTIONS),
        ("## 压缩时的状态", Section.STATE),
        ("## 壓縮時狀態", Section.STATE),
        ("## Цель", Section.GOAL),
        ("## Ограничения и предпочтения", Section.CONSTRAINTS),
        ("## Состояние на момент сжатия", Section.STATE),
        ("## الأسئلة المفتوحة", Section.QUESTIONS),
        ("## 主な決定事項", Section.DECISIONS),
        ("## 압축 시점의 상태", Section.STATE),
    ],
)
def test_translated_headings_are_recognised(line: str, section: Section) -> None:
    assert opened(line) is section


@pytest.mark.parametrize(
    "line",
    [
        "The goal: move HAT045",
        "- Progress: half of it",
        "2. Progress: half of it",
        "8. Goal: a second step",
        "`Goal`",
        "“Goal”",
        "• Goal",
        "→ Progress",
        "Progress…",
        "State: TX",
        "Goalkeeper",
        "Progress was made",
        "Open questions remain",
    ],
)
def test_content_is_no_heading(line: str) -> None:
    assert opened(line) is None


def test_a_code_block_holds_no_heading_but_an_open_one_hides_none() -> None:
    assert missing_headings(PLAIN.replace("## Goal", "```yaml\nGoal: x\n```")) == ("Goal",)
    assert missing_headings("```\n" + PLAIN) == ()


def test_the_body_is_what_is_left_without_headings() -> None:
    assert body("## Goal\nmove it\n\n**Progress**: 1. moved") == "move it\n\n1. moved"


def test_a_summary_without_headings_can_follow_a_structured_one_as_progress() -> None:
    assert as_progress("• One step.\n• Another.") == "## Progress\n• One step.\n• Another."
    assert as_progress(PLAIN) == PLAIN
    assert as_progress("") == ""


@given(st.text(max_size=300))
def test_an_outline_read_again_is_the_same(text: str) -> None:
    once = list(outline(text))
    again = list(outline("\n".join(line.text for line in once)))
    assert [line.opens for line in again if line.opens] == [
        line.opens for line in once if line.opens
    ]


@pytest.mark.parametrize("unit", ["#", "# ", "**", "Goal: ", "1. ", "```\n", "目标：", "- "])
def test_no_text_takes_long_to_read(unit: str) -> None:
    started = time.process_time()
    list(outline(unit * (100_000 // len(unit))))
    assert time.process_time() - started < 2
