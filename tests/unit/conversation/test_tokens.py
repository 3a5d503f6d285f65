"""Token estimates, checked against counts of the o200k tokeniser."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.sessions.conversations import real_sessions
from workers.conversation.tokens import (
    IMAGE_TOKENS,
    MESSAGE_TOKENS,
    estimate_message,
    estimate_text,
)

# Content plus tool calls as compact JSON.
O200K_OF_FILES = {
    "tau_bench_airline": 740_083,
    "tau_chain_long": 497_803,
    "swe_agent": 145_732,
    "crosswoz_test": 171_634,
}

# Texts of the kinds that sessions are made of, with their o200k counts.
O200K_OF_TEXTS = [
    (
        "english prose",
        "Your reservation has been updated. The return flight on May 27 now goes through Las "
        "Vegas, and the difference of $157 will be taken from the gift card that you named. Is "
        "there anything else that I can help you with today?",
        48,
    ),
    (
        "json",
        '{"reservation_id":"OBUT9V","user_id":"sofia_kim_7287","cabin":"economy","flights":'
        '[{"flight_number":"HAT078","date":"2024-05-27","price":444},{"flight_number":"HAT118",'
        '"date":"2024-05-27","price":112}],"payment_id":"gift_card_7091239"}',
        81,
    ),
    (
        "python",
        "def decrypt(message):\n    inverse = pow(123, -1, 256)\n    return bytes(\n        "
        "(inverse * (byte - 18)) % 256 for byte in bytes.fromhex(message)\n    )\n\n\n"
        "with open('msg.enc') as file:\n    print(decrypt(file.read()).decode())\n",
        62,
    ),
    (
        "chinese",
        "为您推荐鲜鱼口老字号美食街，人均消费75元，营业时间是周一至周日 10:00-22:00。"
        "周边有故宫、前门大街、恭王府和天安门广场，其中故宫的评分是4.7分，电话是010-85007938，地址在北京市东城区景山前街4号。",
        86,
    ),
]


@pytest.mark.parametrize(("text", "o200k"), [case[1:] for case in O200K_OF_TEXTS])
def test_an_estimate_is_within_a_sixth_of_the_o200k_count(text: str, o200k: int) -> None:
    assert estimate_text(text) == pytest.approx(o200k, rel=1 / 6)


@pytest.mark.parametrize("name", O200K_OF_FILES)
def test_whole_files_are_estimated_within_fifteen_percent(name: str) -> None:
    messages = [message for _, session in real_sessions(name) for message in session]
    with_frames = sum(map(estimate_message, messages))
    text_alone = with_frames - MESSAGE_TOKENS * len(messages)
    assert with_frames == pytest.approx(O200K_OF_FILES[name], rel=0.15)
    assert text_alone == pytest.approx(O200K_OF_FILES[name], rel=0.15)


def test_the_scripts_cost_what_the_specification_says() -> None:
    assert estimate_text("word" * 1000) == pytest.approx(1000, rel=0.1)
    assert estimate_text("汉" * 1333) == pytest.approx(1000, rel=0.1)
    assert estimate_text("かな" * 667) == pytest.approx(1000, rel=0.1)
    assert estimate_text("한글" * 667) == pytest.approx(1000, rel=0.1)
    assert estimate_text("слово" * 400) == pytest.approx(1000, rel=0.1)
    assert estimate_text("كلمة" * 500) == pytest.approx(1000, rel=0.1)


def test_a_mixed_text_costs_the_sum_of_its_scripts() -> None:
    parts = ["hello " * 100, "你好" * 100, "привет " * 100, "😀" * 100]
    assert estimate_text("".join(parts)) == pytest.approx(sum(map(estimate_text, parts)), abs=2)


def test_dense_text_holds_at_most_three_characters_a_token() -> None:
    assert estimate_text("a" * 300, dense=True) == 100
    assert estimate_text("a" * 300) < 100
    numbers = "1234567890" * 30
    assert estimate_text(numbers, dense=True) == estimate_text(numbers)


def test_nothing_costs_nothing_and_something_at_least_one() -> None:
    assert estimate_text("") == 0
    assert estimate_text(" ") == 1
    assert estimate_text("a") == 1


@given(st.text(st.characters(codec=None)), st.text(st.characters(codec=None)))
def test_any_string_has_an_estimate_and_more_text_never_costs_less(one: str, two: str) -> None:
    assert estimate_text(one + two) >= max(estimate_text(one), estimate_text(two))


@pytest.mark.parametrize("text", ["\ud800", "\udfff\ud800", "\x00", "a\ud83dz\x00"])
def test_half_pairs_and_nul_are_counted(text: str) -> None:
    assert 1 <= estimate_text(text) <= 4


@pytest.mark.parametrize("unit", ["x", "中", "a中", "é\ud800 "])
def test_ten_megabytes_take_well_under_a_second(unit: str) -> None:
    text = unit * (10 * 2**20 // len(unit.encode("utf-8", "surrogatepass")))
    started = time.process_time()
    estimate_text(text)
    assert time.process_time() - started < 1.0


def test_a_message_costs_its_text_and_four() -> None:
    text = "Cancel my reservation, please."
    assert estimate_message({"role": "user", "content": text}) == estimate_text(text) + 4
    assert estimate_message({"role": "assistant", "content": None}) == 4


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 100_000}},
        {"type": "input_image", "image_url": "https://example.com/a.png"},
        {"type": "image", "source": {"type": "base64", "data": "A" * 100_000}},
    ],
)
def test_an_image_costs_the_same_in_every_shape(part: dict[str, Any]) -> None:
    content = [{"type": "text", "text": "look"}, part]
    assert estimate_message({"role": "user", "content": content}) == 4 + 1 + IMAGE_TOKENS


def test_ten_rows_of_text_and_image_are_not_taken_for_ten_small_ones() -> None:
    row = {
        "role": "user",
        "content": [{"type": "text", "text": "x" * 4000}, {"type": "image_url", "image_url": {}}],
    }
    assert 10 * estimate_message(row) > 10 * (IMAGE_TOKENS + 900)


def test_tool_calls_are_counted_in_full() -> None:
    calls = [
        {
            "id": "call_1",
            "type": "function",
            "function": {"name": "write", "arguments": json.dumps({"text": "y" * 9000})},
        }
    ]
    assert estimate_message({"role": "assistant", "content": None, "tool_calls": calls}) >= 3000


def test_reasoning_that_is_sent_back_is_counted() -> None:
    bare = {"role": "assistant", "content": "Done."}
    thought = {**bare, "reasoning_content": "word " * 1000}
    assert estimate_message(thought) - estimate_message(bare) > 900
    assert estimate_message({**bare, "refusal": None, "annotations": []}) == estimate_message(bare)


def test_results_inside_parts_are_counted_with_their_images() -> None:
    part = {
        "type": "tool_result",
        "tool_use_id": "x",
        "content": [{"type": "text", "text": "word " * 100}, {"type": "image", "source": {}}],
    }
    tokens = estimate_message({"role": "user", "content": [part]})
    assert tokens == pytest.approx(IMAGE_TOKENS + 100, rel=0.02)
