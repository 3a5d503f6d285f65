"""Which scripts a summary may be written in."""

from __future__ import annotations

from datetime import date

import pytest

from workers.summariser.contract import Passage, SummaryRequest, Task
from workers.summariser.scripts import Script, is_spoken, scripts_spoken

LATIN = "The user asked to move the flight to tomorrow, and the agent did so."
CYRILLIC = "Пользователь попросил перенести рейс на завтра, и агент это сделал."
HAN = "用户要求把航班改到明天，客服核对后确认修改。"


def requested(previous: str, question: str, said: str, task: Task) -> SummaryRequest:
    return SummaryRequest(
        task=task,
        previous=previous,
        question=question,
        passages=(Passage("assistant", said),),
        target_tokens=100,
        replaced_tokens=200,
        today=date(2026, 1, 1),
    )


@pytest.mark.parametrize("task", [Task.ABSORB, Task.DEFRAG, *(t for t in Task if t.in_sections)])
@pytest.mark.parametrize("previous", ["", LATIN, CYRILLIC])
@pytest.mark.parametrize("question", ["", "OK", LATIN, f"{LATIN} {CYRILLIC}", HAN])
@pytest.mark.parametrize("said", ["", LATIN * 9, CYRILLIC, HAN * 9])
def test_a_script_is_spoken_when_it_is_among_those_spoken_or_none_is_known(
    previous: str, question: str, said: str, task: Task
) -> None:
    request = requested(previous, question, said, task)
    known = scripts_spoken(request)
    for script in Script:
        assert is_spoken(script, request) == (script in known or not known)


def test_of_two_scripts_that_are_spoken_by_turns_both_may_be_written() -> None:
    request = requested(LATIN, HAN, CYRILLIC * 9, Task.ABSORB)
    assert scripts_spoken(request) == {Script.LATIN, Script.HAN, Script.CYRILLIC}
