"""What an endpoint's failures mean."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.summariser.contract import ErrorClass
from workers.summariser.failures import (
    MAX_RETRY_AFTER,
    reported_error,
    retry_after,
    status_error,
    transport_error,
)

NOW = 1_740_823_200.0  # Sat, 01 Mar 2025 10:00:00 GMT

TOO_LONG = [
    "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000.",
    "Your input exceeds the context window of this model. Please adjust your input and try again.",
    "prompt is too long: 218849 tokens > 200000 maximum",
    "Input is too long for requested model.",
    "The input token count (1200000) exceeds the maximum number of tokens allowed (1048575).",
    "the request exceeds the available context size (4096 tokens), try increasing it",
    "The number of tokens to keep from the initial prompt is greater than the context length",
    "Trying to keep the first 4520 tokens when context the overflows. Context size is full",
    "input length exceeds context length",
    "Range of input length should be [1, 30720]",
    "Please reduce the length of the messages or completion.",
    "Too many tokens in the request",
    "Prompt exceeds max length; prompt 超长",
    "输入长度超过上下文限制",
]
OTHER_TROUBLE = [
    "Unknown parameter: 'context_length'.",
    "Invalid 'messages[1].tool_calls': malformed arguments",
    "top_p must be less than or equal to 1",
    "Unsupported value: 'stream_options'",
    "model_not_found: the model is not available in this context",
    "Your account exceeds its monthly quota",
    "Too many tokens, please wait before trying again.",
    "The long context beta is not yet available for this subscription.",
    "max_tokens is too large: 6000. This model supports at most 4096 completion tokens",
]


@pytest.mark.parametrize("message", TOO_LONG)
def test_the_words_for_a_context_that_is_too_long_are_known(message: str) -> None:
    for body in (message, {"message": message}, {"metadata": {"raw": message}}):
        assert status_error(400, body, {}, NOW).error_class is ErrorClass.CONTEXT_OVERFLOW
    assert reported_error({"message": message}).error_class is ErrorClass.CONTEXT_OVERFLOW


@pytest.mark.parametrize("message", OTHER_TROUBLE)
def test_other_refusals_are_not_taken_for_a_long_context(message: str) -> None:
    assert status_error(400, {"message": message}, {}, NOW).error_class is ErrorClass.BAD_REQUEST


def test_a_quoted_request_is_not_taken_for_the_endpoints_words() -> None:
    body = {"detail": [{"msg": "field required", "input": "prompt is too long"}]}
    assert status_error(422, body, {}, NOW).error_class is ErrorClass.BAD_REQUEST


def test_a_code_is_enough_for_a_long_context() -> None:
    body = {"message": "no", "code": "context_length_exceeded"}
    error = status_error(400, body, {}, NOW)
    assert error.error_class is ErrorClass.CONTEXT_OVERFLOW
    assert error.detail == "HTTP 400 context_length_exceeded"


def test_a_body_that_is_too_large_is_a_context_that_is_too_long() -> None:
    assert status_error(413, None, {}, NOW).error_class is ErrorClass.CONTEXT_OVERFLOW


@pytest.mark.parametrize("code", ["sk-abc123", "the violet umbrella", "x" * 60, 17, None])
def test_only_plain_codes_are_repeated(code: object) -> None:
    assert status_error(400, {"code": code}, {}, NOW).detail == "HTTP 400"


def test_a_permanent_failure_asks_for_no_wait() -> None:
    assert status_error(401, None, {"retry-after": "5"}, NOW).retry_after is None


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "20"}, 20.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after-ms": "1500", "retry-after": "99"}, 1.5),
        ({"retry-after-ms": "soon", "retry-after": "99"}, 99.0),
        ({"retry-after": "Sat, 01 Mar 2025 10:01:00 GMT"}, 60.0),
        ({"retry-after": "Sat, 01 Mar 2025 09:00:00 GMT"}, 0.0),
        (
            {
                "retry-after": "Sat, 01 Mar 2025 10:01:00 GMT",
                "date": "Sat, 01 Mar 2025 10:00:50 GMT",
            },
            10.0,
        ),
        ({"retry-after": "1e300"}, MAX_RETRY_AFTER),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": ""}, None),
        ({}, None),
    ],
)
def test_the_wait_is_read_in_each_of_its_forms(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert retry_after(headers, NOW) == seconds


@given(st.text(max_size=40))
def test_no_header_breaks_the_reading_of_the_wait(text: str) -> None:
    seconds = retry_after({"retry-after": text, "date": text}, NOW)
    assert seconds is None or 0 <= seconds <= MAX_RETRY_AFTER


def test_a_broken_connection_is_the_endpoints_fault_only_before_the_answer() -> None:
    error = ConnectionResetError()
    before = transport_error(error, "host:1", answering=False)
    amid = transport_error(error, "host:1", answering=True)
    assert (before.error_class, amid.error_class) == (
        ErrorClass.CONNECTION,
        ErrorClass.INTERRUPTED,
    )
    assert before.detail == "ConnectionResetError at host:1"
