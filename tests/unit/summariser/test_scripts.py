"""Which script a text is written in, and which a conversation is held in."""

from __future__ import annotations

from datetime import date

import pytest

from workers.summariser.contract import Passage, SummaryRequest, Task
from workers.summariser.scripts import (
    Script,
    accepted_scripts,
    dominant_script,
    is_accepted,
    letter_weights,
)


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("The user asked to move the flight to tomorrow.", Script.LATIN),
        ("Người dùng yêu cầu đổi chuyến bay sang ngày mai.", Script.LATIN),
        ("Пользователь попросил перенести рейс на завтра.", Script.CYRILLIC),
        ("Ο χρήστης ζήτησε να αλλάξει την πτήση για αύριο.", Script.GREEK),
        ("המשתמש ביקש לשנות את הטיסה למחר והסוכן אישר את זה.", Script.HEBREW),
        ("طلب المستخدم تغيير الرحلة إلى الغد وأكد الوكيل ذلك.", Script.ARABIC),
        ("उपयोगकर्ता ने कल की उड़ान में बदलने का अनुरोध किया था।", Script.DEVANAGARI),
        ("ผู้ใช้ขอเปลี่ยนเที่ยวบินเป็นวันพรุ่งนี้และเจ้าหน้าที่ยืนยัน", Script.THAI),
        ("用户要求把航班改到明天，客服核对后确认修改。", Script.HAN),
        ("利用者は明日の便への変更を希望し、担当者は予約を確認しました。", Script.KANA),
        ("사용자가 내일 항공편으로 변경을 요청했고 상담원이 확인했습니다.", Script.HANGUL),
    ],
)
def test_each_script_is_known(text: str, script: Script) -> None:
    assert dominant_script(text) is script


def test_code_ids_paths_and_keys_do_not_make_a_text_latin() -> None:
    text = (
        "助手运行了 `pytest tests/unit/test_scripts.py --maxfail=1`，修改 /srv/app/config.yaml，"
        'user_id 是 mia_li_3668，返回 {"reservation_id": "HAT045", "status": 1}。'
    )
    assert letter_weights(text).keys() == {Script.HAN}
    assert dominant_script(text) is Script.HAN


def test_too_few_letters_or_an_even_mixture_are_not_judged() -> None:
    assert dominant_script("OK, HAT045 ✓") is None
    assert dominant_script("") is None
    assert dominant_script("the flight was moved to tomorrow 用户要求航班改到明天上午") is None


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
    known = accepted_scripts(request)
    for script in Script:
        assert is_accepted(script, request) == (script in known or not known)


def test_of_two_scripts_that_are_spoken_by_turns_both_may_be_written() -> None:
    request = requested(LATIN, HAN, CYRILLIC * 9, Task.ABSORB)
    assert accepted_scripts(request) == {Script.LATIN, Script.HAN, Script.CYRILLIC}
