"""Which errors of a model's API mean that a session must shrink."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.model.output_errors import OUTPUTS
from tests.support.model.overflow_errors import OVERFLOWS
from tests.support.model.refusals import REFUSALS
from workers.provider_errors.errors import (
    ApiError,
    ApiErrorKind,
    read_error,
    recognise,
    recognise_error,
)

PAYLOAD = ApiErrorKind.PAYLOAD_TOO_LARGE
LONG_CONTEXT = ApiErrorKind.LONG_CONTEXT_RATE_LIMIT
OUTPUT = ApiErrorKind.OUTPUT_TOO_LARGE
OVERFLOW = ApiErrorKind.CONTEXT_OVERFLOW

OVER_ALLOWANCE = (
    "Request too large for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000, "
    "Requested 61337. The input or output tokens must be reduced in order to run successfully. "
    "Visit https://example.com/account/rate-limits to learn more."
)
LONG = "prompt is too long: 212345 tokens > 200000 maximum"
LONG_ERROR = ApiError(OVERFLOW, 200_000, 212_345)


@pytest.mark.parametrize("case", OVERFLOWS)
def test_an_overflow_is_recognised_with_the_providers_figures(case: str) -> None:
    message, limit, tokens = OVERFLOWS[case]
    expected = ApiError(OVERFLOW, limit, tokens)
    for status in (400, 422, 500, None):
        assert recognise(status=status, code=None, message=message) == expected
    assert recognise_error({"status": 400, "message": message}) == expected


@pytest.mark.parametrize("case", OUTPUTS)
def test_an_output_that_is_too_large_is_recognised_with_the_room_that_is_left(case: str) -> None:
    message, limit, tokens, room = OUTPUTS[case]
    expected = ApiError(OUTPUT, limit, tokens, room)
    assert recognise(status=400, code="invalid_request_error", message=message) == expected
    assert recognise_error({"error": {"message": message, "code": 400}}) == expected


@pytest.mark.parametrize("case", REFUSALS)
def test_other_errors_are_not_taken_for_context_pressure(case: str) -> None:
    status, message = REFUSALS[case]
    assert recognise(status=status, code=None, message=message) is None
    assert recognise_error({"status": status, "error": {"message": message}}) is None
    raised = f"Error code: {status} - {message}" if status else message
    assert recognise_error(RuntimeError(raised)) is None


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (413, ""),
        (413, "<html><h1>413 Request Entity Too Large</h1><center>nginx</center></html>"),
        (413, "Request exceeds the maximum size"),
        (400, "Request payload size exceeds the limit: 20971520 bytes."),
        (400, "<400> InternalError: Exceeded limit on max bytes to buffer : 6291456"),
        (400, "String value length (20054016) exceeds the maximum allowed (20000000)"),
        (400, "'$.messages' is too long. Maximum length is 2048, but got 4968 items"),
        (
            400,
            "Invalid 'messages[17].content': string too long. Expected a string with maximum "
            "length 1048576, but got a string with length 1540820 instead.",
        ),
        (None, "413 Payload Too Large"),
        (None, "Maximum request body size 1048576 exceeded, actual body size 1056562"),
    ],
)
def test_a_payload_that_is_too_large_states_no_window(status: int | None, message: str) -> None:
    assert recognise(status=status, code=None, message=message) == ApiError(PAYLOAD)


def test_a_payload_error_keeps_its_kind_and_what_it_says_of_the_window() -> None:
    assert recognise(status=413, code=None, message=LONG) == ApiError(PAYLOAD, 200_000, 212_345)
    assert recognise(status=None, code="413", message="") == ApiError(PAYLOAD)
    assert recognise(status=None, code="request_too_large", message="no") == ApiError(PAYLOAD)


@pytest.mark.parametrize("status", [429, 413, None])
def test_a_request_above_what_a_minute_allows_can_only_shrink(status: int | None) -> None:
    error = recognise(status=status, code="rate_limit_exceeded", message=OVER_ALLOWANCE)
    assert error == ApiError(PAYLOAD, stated_tokens=61_337)


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (429, "Extra usage is required for long context requests."),
        (429, "Extra usage is required for 1M context"),
        (429, "This request would exceed the rate limit for long context requests"),
        (400, "The long context beta is not yet available for this subscription."),
        (None, "Extra usage is required for long context requests."),
    ],
)
def test_an_account_without_long_contexts_is_recognised(status: int | None, message: str) -> None:
    assert recognise(status=status, code=None, message=message) == ApiError(LONG_CONTEXT)


@pytest.mark.parametrize(
    "code", ["context_length_exceeded", "exceed_context_size_error", "tokens_too_long"]
)
def test_a_code_is_enough(code: str) -> None:
    assert recognise(status=400, code=code, message="no") == ApiError(OVERFLOW)
    assert recognise(status=429, code=code, message="slow down") is None


@pytest.mark.parametrize("limit", ["0", "10000001", "99999999999", "9" * 400, "00"])
def test_a_limit_that_makes_no_sense_is_left_out(limit: str) -> None:
    message = f"This model's maximum context length is {limit} tokens."
    assert recognise(status=400, code=None, message=message) == ApiError(OVERFLOW)


@pytest.mark.parametrize(
    ("written", "tokens"),
    [
        ("131072", 131_072),
        ("131,072", 131_072),
        ("1,048,576", 1_048_576),
        ("131_072", 131_072),
        ("128k", 128_000),
        ("128 K", 128_000),
        ("1M", 1_000_000),
        ("1.5M", 1_500_000),
        ("20万", 200_000),
        ("10000000", 10_000_000),
    ],
)
def test_a_limit_is_read_in_each_way_of_writing_it(written: str, tokens: int) -> None:
    message = f"This model's maximum context length is {written} tokens."
    error = recognise(status=400, code=None, message=message)
    assert error == ApiError(OVERFLOW, tokens)


def test_only_the_models_own_cap_on_its_output_is_not_helped_by_a_smaller_prompt() -> None:
    helped = {
        case: recognise(status=400, code=None, message=message)
        for case, (message, *_) in OUTPUTS.items()
    }
    by_window = {case for case, error in helped.items() if error and error.smaller_prompt_helps}
    assert by_window == {case for case, (_, limit, *_) in OUTPUTS.items() if limit}
    assert LONG_ERROR.smaller_prompt_helps


HOSTILE = {
    "one name": "max_tokens ",
    "one verb": "exceed ",
    "digits": "1",
    "grouped digits": "1,111",
    "braces": "{",
    "objects": '{"a":',
    "lists": '[["',
    "empty lists": "[[],",
    "blanks": " ",
    "parts": "1 in the messages, ",
    "context": "context length ",
    "complaints": "invalid ",
    "limits": "too large limit 1, ",
    "han": "输入",
    "escapes": '"\\',
}


@pytest.mark.parametrize("piece", HOSTILE)
def test_a_megabyte_of_anything_is_read_within_a_second(piece: str) -> None:
    text = HOSTILE[piece] * (1_000_000 // len(HOSTILE[piece]))
    start = time.process_time()
    for status in (None, 400, 413, 429):
        recognise(status=status, code=None, message=text)
        recognise_error({"status": status, "error": {"message": text}})
    assert time.process_time() - start < 1


def test_only_the_beginning_of_a_long_message_is_read() -> None:
    assert recognise_error({"status": 400, "message": LONG + " x" * 500_000}) == LONG_ERROR
    assert recognise_error({"status": 400, "message": "x " * 500_000 + LONG}) is None
    assert len(read_error(RuntimeError("x" * 1_000_000)).message) < 10_000


@given(
    st.integers(1_000, 10_000_000),
    st.integers(1, 10_000_000),
    st.integers(1, 10_000_000),
)
def test_the_room_that_is_left_fits_beside_the_prompt_and_is_less_than_was_refused(
    limit: int, prompt: int, output: int
) -> None:
    message = (
        f"This model's maximum context length is {limit} tokens. However, you requested "
        f"{prompt + output} tokens ({prompt} in the messages, {output} in the completion)."
    )
    error = recognise(status=400, code="context_length_exceeded", message=message)
    assert error is not None
    assert (error.stated_limit, error.stated_tokens) == (limit, prompt)
    assert error.kind is (OUTPUT if prompt < limit else OVERFLOW)
    if error.output_room is not None:
        assert 0 < error.output_room < output
        assert prompt + error.output_room <= limit
