"""How the parts of an answer make its text."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import date
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.summariser.completion import Completion, VisibleText, size_limit
from workers.summariser.contract import ErrorClass, SummariserError, SummaryRequest, Task

REQUEST = SummaryRequest(
    task=Task.ABSORB,
    previous="",
    question="",
    passages=(),
    target_tokens=500,
    replaced_tokens=10_000,
    today=date(2026, 11, 30),
)


def chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def text_of(*payloads: dict[str, Any], limit: int = 4_000) -> str:
    answer = Completion(limit)
    for payload in payloads:
        answer.take(payload)
    return answer.text()


def failure(*payloads: dict[str, Any], limit: int = 4_000) -> ErrorClass:
    with pytest.raises(SummariserError) as caught:
        text_of(*payloads, limit=limit)
    return caught.value.error_class


def test_text_is_put_together_and_stripped() -> None:
    parts = (chunk(content="\n\nOne "), chunk(content="two"), chunk("stop", content=" "))
    assert text_of(*parts) == "One two"


@pytest.mark.parametrize(
    "delta",
    [
        {"content": "x"},
        {"content": " "},
        {"content": [{"type": "thinking", "thinking": []}]},
        {"reasoning_content": "x"},
        {"reasoning": "x"},
        {"reasoning_details": [{"text": "x"}]},
    ],
)
def test_text_and_reasoning_are_progress(delta: dict[str, Any]) -> None:
    assert Completion(4_000).take(chunk(**delta))


@pytest.mark.parametrize(
    "payload",
    [
        chunk(role="assistant", content=""),
        chunk(content=None),
        chunk(),
        {},
        {"choices": None},
        {"choices": []},
        {"choices": [None]},
        {"choices": [{"delta": None}]},
        {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}},
    ],
)
def test_everything_else_is_not(payload: dict[str, Any]) -> None:
    assert not Completion(4_000).take(payload)


def test_content_in_typed_parts_is_understood() -> None:
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    parts = [thinking, {"type": "text", "text": "yes"}]
    assert text_of(chunk("stop", content=parts)) == "yes"


def test_a_whole_completion_needs_no_finish_reason() -> None:
    assert text_of({"choices": [{"message": {"content": "done"}}]}) == "done"


def test_the_last_token_counts_are_kept() -> None:
    answer = Completion(4_000)
    for prompt, completion in ((9, 1), (9, 5), (None, None)):
        answer.take({"usage": {"prompt_tokens": prompt, "completion_tokens": completion}})
    assert (answer.prompt_tokens, answer.completion_tokens) == (9, 5)


@pytest.mark.parametrize(
    ("finish", "expected"),
    [
        (None, ErrorClass.INTERRUPTED),
        ("abort", ErrorClass.INTERRUPTED),
        ("length", ErrorClass.CUT_BY_LENGTH),
        ("model_length", ErrorClass.CUT_BY_LENGTH),
        ("tool_calls", ErrorClass.TOOL_CALL),
        ("content_filter", ErrorClass.REFUSAL),
        ("error", ErrorClass.SERVER_ERROR),
    ],
)
def test_a_bad_ending_spoils_good_text(finish: str | None, expected: ErrorClass) -> None:
    assert failure(chunk(content="Good text."), chunk(finish)) is expected


@pytest.mark.parametrize("finish", ["stop", "eos", "end_turn", "COMPLETE"])
def test_other_endings_are_good(finish: str) -> None:
    assert text_of(chunk(finish, content="Good text.")) == "Good text."


def test_an_answer_that_does_not_end_is_given_up_at_its_limit() -> None:
    assert failure(chunk(content="x" * 11), limit=10) is ErrorClass.TOO_LARGE


def test_the_limit_follows_what_is_replaced() -> None:
    assert size_limit(REQUEST) == 80_000
    assert size_limit(replace(REQUEST, replaced_tokens=10)) == 4_000


def test_the_limit_of_a_structured_summary_follows_what_was_asked_for_too() -> None:
    batch = replace(REQUEST, task=Task.BATCH, target_tokens=2_000, replaced_tokens=60_000)
    assert size_limit(batch) == 32_000
    assert size_limit(replace(batch, task=Task.MERGE, replaced_tokens=3_000)) == 24_000
    assert size_limit(replace(batch, target_tokens=30)) == 4_000


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["choices", "delta", "message", "content", "usage", "finish_reason", "type", "text"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=15,
)


@given(st.dictionaries(st.sampled_from(["choices", "usage", "id"]), values))
def test_no_json_breaks_the_reading(payload: dict[str, Any]) -> None:
    with suppress(SummariserError):
        text_of(payload)


def visible(*pieces: str) -> str:
    text = VisibleText()
    for piece in pieces:
        text.feed(piece)
    return text.text()


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("plain", "plain"),
        ("<think>hm</think>yes", "yes"),
        ("<THINK>hm</Think>yes", "yes"),
        ("a<think>hm</think>b<think>well</think>c", "abc"),
        ("<think>never closed", ""),
        ("kept until<think>never closed", ""),
        ("opened by the template</think>yes", "yes"),
        ("a < b, <thin and <thinner>", "a < b, <thin and <thinner>"),
        ("ends like a tag <thi", "ends like a tag <thi"),
        ("", ""),
    ],
)
def test_only_what_stands_outside_of_think_blocks_is_visible(said: str, meant: str) -> None:
    assert visible(said) == meant


@given(
    st.lists(st.sampled_from(["<think>", "</think>", "<", "</th", "ink>", "text ", "字"])),
    st.lists(st.integers(0, 40)),
)
def test_where_the_pieces_are_cut_makes_no_difference(parts: list[str], cuts: list[int]) -> None:
    whole = "".join(parts)
    edges = [0, *sorted(cut for cut in cuts if cut <= len(whole)), len(whole)]
    pieces = [whole[a:b] for a, b in pairwise(edges)]
    assert visible(*pieces) == visible(whole)


def test_hidden_text_does_not_count_as_size() -> None:
    text = VisibleText()
    text.feed("<think>" + "hm " * 1_000 + "</think>four")
    assert text.chars == 4
