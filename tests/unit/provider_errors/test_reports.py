"""Status, code and words of an error, in the shapes in which it reaches a gateway."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import httpx2
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.provider_errors.errors import ApiError, ApiErrorKind, read_error, recognise_error

PAYLOAD = ApiErrorKind.PAYLOAD_TOO_LARGE
LONG_CONTEXT = ApiErrorKind.LONG_CONTEXT_RATE_LIMIT
OVERFLOW = ApiErrorKind.CONTEXT_OVERFLOW

OVER_ALLOWANCE = (
    "Request too large for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000, "
    "Requested 61337. The input or output tokens must be reduced in order to run successfully. "
    "Visit https://example.com/account/rate-limits to learn more."
)
LONG = "prompt is too long: 212345 tokens > 200000 maximum"
LONG_ERROR = ApiError(OVERFLOW, 200_000, 212_345)


# What the openai client raises.


def refusal(status: int, body: object, stream: bool = False) -> openai.APIError:
    """Return the error that the openai client makes of an answer with this status and JSON body."""
    text = body if isinstance(body, str) else json.dumps(body)
    kind = "text/event-stream" if stream else "application/json"
    content = f"data: {text}\n\n" if stream else text

    def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(status, text=content, headers={"content-type": kind})

    transport = httpx2.MockTransport(answer)
    with (
        httpx2.Client(transport=transport) as http,
        openai.OpenAI(
            api_key="k", base_url="http://model.test/v1", http_client=http, max_retries=0
        ) as client,
    ):
        with pytest.raises(openai.APIError) as caught:
            for _ in client.chat.completions.create(model="m", messages=[], stream=True):
                pass
        return caught.value


Shape = Callable[[str], Mapping[str, Any]]

SHAPES: dict[str, Shape] = {
    "openai": lambda said: {
        "error": {
            "message": said,
            "type": "invalid_request_error",
            "param": "messages",
            "code": "context_length_exceeded",
        }
    },
    "anthropic": lambda said: {
        "type": "error",
        "error": {"type": "invalid_request_error", "message": said},
        "request_id": "req_1",
    },
    "google": lambda said: {
        "error": {
            "code": 400,
            "message": said,
            "status": "INVALID_ARGUMENT",
            "details": [{"@type": "type.example.com/BadRequest"}],
        }
    },
    "openrouter": lambda said: {
        "error": {
            "message": "Provider returned error",
            "code": 400,
            "metadata": {
                "provider_name": "Anthropic",
                "raw": json.dumps({"type": "error", "error": {"message": said}}),
            },
        }
    },
    "a router around a router": lambda said: {
        "error": {
            "message": "Error from provider: "
            + json.dumps({"error": {"message": json.dumps({"error": {"message": said}})}}),
            "type": "api_error",
            "code": "provider_response_error",
        }
    },
    "litellm": lambda said: {
        "error": {
            "message": "litellm.BadRequestError: AnthropicException - b'"
            + json.dumps({"type": "error", "error": {"message": said}})
            + "'. Received Model Group=m\nAvailable Model Group Fallbacks=None",
            "type": None,
            "param": None,
            "code": "400",
        }
    },
    "vllm": lambda said: {
        "object": "error",
        "message": said,
        "type": "BadRequestError",
        "param": None,
        "code": 400,
    },
    "fastapi": lambda said: {"detail": said},
    "lm studio": lambda said: {"error": said},
    "siliconflow": lambda said: {"code": 20015, "message": said, "data": None},
    "minimax": lambda said: {"base_resp": {"status_code": 2013, "status_msg": said}},
    "mimo": lambda said: {"error": {"code": "400", "message": "Param Incorrect", "param": said}},
    "bedrock": lambda said: {"Message": said},
}


@pytest.mark.parametrize("shape", SHAPES)
def test_what_the_openai_client_raises_is_read(shape: str) -> None:
    error = refusal(400, SHAPES[shape](LONG))
    assert type(error) is openai.BadRequestError
    assert read_error(error).status == 400
    assert recognise_error(error) == LONG_ERROR


@pytest.mark.parametrize("shape", SHAPES)
def test_words_in_other_scripts_are_read_out_of_nested_json(shape: str) -> None:
    said = "输入的token数(200000)超过了模型支持的最大长度131072"
    assert recognise_error(refusal(400, SHAPES[shape](said))) == ApiError(
        OVERFLOW, 131_072, 200_000
    )


@pytest.mark.parametrize("shape", ["openai", "openrouter", "litellm"])
def test_an_error_in_the_middle_of_a_stream_is_read(shape: str) -> None:
    error = refusal(200, SHAPES[shape](LONG), stream=True)
    assert not isinstance(error, openai.APIStatusError)
    assert recognise_error(error) == LONG_ERROR


def test_a_list_of_errors_is_read() -> None:
    assert recognise_error(refusal(400, [SHAPES["google"](LONG)])) == LONG_ERROR


def test_figures_in_fields_of_their_own_are_read() -> None:
    body = {
        "error": {
            "code": 400,
            "message": "the request exceeds the available context size",
            "type": "exceed_context_size_error",
            "n_prompt_tokens": 14_429,
            "n_ctx": 8_192,
        }
    }
    assert recognise_error(refusal(400, body)) == ApiError(OVERFLOW, 8_192, 14_429)
    assert recognise_error(refusal(500, body)) == ApiError(OVERFLOW, 8_192, 14_429)


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (413, "<html>too big</html>", ApiError(PAYLOAD)),
        (
            413,
            {"error": {"type": "request_too_large", "message": "Request exceeds the maximum size"}},
            ApiError(PAYLOAD),
        ),
        (
            429,
            {
                "error": {
                    "type": "rate_limit_error",
                    "message": "Extra usage is required for long context requests.",
                }
            },
            ApiError(LONG_CONTEXT),
        ),
        (
            429,
            {"error": {"message": OVER_ALLOWANCE, "type": "tokens", "code": "rate_limit_exceeded"}},
            ApiError(PAYLOAD, stated_tokens=61_337),
        ),
        (429, {"error": {"message": "Rate limit reached", "code": "rate_limit_exceeded"}}, None),
        (429, {"error": {"message": "Too many tokens, please wait"}}, None),
        (401, {"error": {"message": LONG}}, None),
        (400, "prompt is too long", ApiError(OVERFLOW)),
        (400, "", None),
        (400, {"error": None}, None),
        (400, "null", None),
        (
            400,
            {
                "error": {
                    "message": "Failed to call a function. See 'failed_generation'.",
                    "code": "tool_use_failed",
                    "failed_generation": "the context length was exceeded",
                }
            },
            None,
        ),
    ],
)
def test_each_status_of_the_openai_client_is_judged(
    status: int, body: object, expected: ApiError | None
) -> None:
    assert recognise_error(refusal(status, body)) == expected


def test_a_request_that_a_server_sends_back_is_not_taken_for_its_words() -> None:
    detail = [
        {
            "type": "missing",
            "loc": ["body", "messages", 0, "content"],
            "msg": "Field required",
            "input": {"role": "user", "text": LONG, "message": LONG},
        }
    ]
    error = refusal(422, {"detail": detail})
    assert "too long" not in read_error(error).message
    assert recognise_error(error) is None


# Other clients, and plain fields.


class AnthropicError(Exception):
    """As the anthropic client raises it: the message repeats the body."""

    def __init__(self, status: int, body: Mapping[str, Any]) -> None:
        super().__init__(f"Error code: {status} - {body}")
        self.message = str(self)
        self.status_code = status
        self.body = body


class GoogleError(Exception):
    """As Google's client raises it: the code is the status, the status a name."""

    def __init__(self, code: int, status: str, message: str) -> None:
        super().__init__(f"{code} {status}. {{'error': {{'message': '{message}'}}}}")
        self.code = code
        self.status = status
        self.message = message


class BotoError(Exception):
    """As botocore raises it: the response is a mapping."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(f"An error occurred ({code}) when calling Converse: {message}")
        self.response = {
            "Error": {"Code": code, "Message": message},
            "ResponseMetadata": {"HTTPStatusCode": status},
        }


def test_the_exceptions_of_other_clients_are_read() -> None:
    anthropic = AnthropicError(400, SHAPES["anthropic"](LONG))
    assert recognise_error(anthropic) == LONG_ERROR
    assert read_error(anthropic).code == "invalid_request_error"

    google = GoogleError(
        400,
        "INVALID_ARGUMENT",
        "The input token count (1200293) exceeds the maximum number of tokens allowed (1048576).",
    )
    assert recognise_error(google) == ApiError(OVERFLOW, 1_048_576, 1_200_293)

    boto = BotoError(400, "ValidationException", "Input is too long for requested model.")
    assert read_error(boto).status == 400
    assert recognise_error(boto) == ApiError(OVERFLOW)
    throttled = BotoError(429, "ThrottlingException", "Too many tokens, please wait")
    assert recognise_error(throttled) is None


def test_an_exception_that_an_agent_wrapped_is_read_through_its_cause() -> None:
    wrapped = RuntimeError("the model refused")
    wrapped.__cause__ = refusal(400, SHAPES["openai"](LONG))
    outer = ValueError("turn failed")
    outer.__context__ = wrapped
    assert read_error(outer).status == 400
    assert recognise_error(outer) == LONG_ERROR


def test_an_error_with_a_status_of_its_own_is_not_judged_by_an_earlier_one() -> None:
    earlier = refusal(400, SHAPES["openai"](LONG))
    later = refusal(401, {"error": {"message": "Incorrect API key"}})
    later.__context__ = earlier
    assert recognise_error(later) is None

    hidden = RuntimeError("cancelled")
    hidden.__context__ = earlier
    hidden.__suppress_context__ = True
    assert recognise_error(hidden) is None


def test_a_cycle_of_causes_ends() -> None:
    one, two = RuntimeError("one"), RuntimeError("two")
    one.__cause__, two.__cause__ = two, one
    assert read_error(one).message == "one | two"


@pytest.mark.parametrize(
    "fields",
    [
        {"status": 400, "message": LONG},
        {"status_code": "400", "error": LONG},
        {"status": 400, "error": {"message": LONG}},
        {"status": 400, "body": json.dumps({"error": {"message": LONG}})},
        {"status": 400, "body": json.dumps({"error": {"message": LONG}}).encode()},
        {"body": {"error": {"message": LONG, "code": 400}}},
        {"error": refusal(400, SHAPES["openai"](LONG))},
        {"message": f"Error code: 400 - {{'error': {{'message': '{LONG}'}}}}"},
        {"message": LONG, "type": "invalid_request_error"},
        {"status": 200, "message": LONG},
    ],
    ids=[
        "message",
        "status as text",
        "error object",
        "body as text",
        "body as bytes",
        "body",
        "exception",
        "status in the message",
        "no status",
        "status of the stream",
    ],
)
def test_plain_fields_are_read(fields: Mapping[str, Any]) -> None:
    assert recognise_error(fields) == LONG_ERROR


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("Error code: 429 - slow down", 429),
        ("HTTP 413: too big", 413),
        ("API Error: 400 bad", 400),
        ("litellm.BadRequestError: Error code: 400 - bad", 400),
        ("503 Service Unavailable", 503),
        ("4000 tokens are too many", None),
        ("prompt is 413 tokens", None),
    ],
)
def test_a_status_at_the_beginning_of_a_message_is_read(text: str, status: int | None) -> None:
    assert read_error(RuntimeError(text)).status == status


def test_the_code_that_says_most_is_reported() -> None:
    fields = {"type": "invalid_request_error", "code": "context_length_exceeded", "message": "no"}
    assert read_error(fields).code == "context_length_exceeded"
    assert read_error({"error": {"code": 1261, "message": "no"}}).code == "1261"
    assert read_error({"type": "error", "code": None}).code is None


def test_a_report_shows_nothing_of_the_message_when_it_is_printed() -> None:
    assert "violet" not in repr(read_error({"status": 400, "message": "the violet umbrella"}))


@pytest.mark.parametrize("error", [None, 17, 1.5, [], {}, "", object(), KeyError()])
def test_what_is_no_error_reads_as_an_empty_report(error: object) -> None:
    report = read_error(error)
    assert (report.status, report.code, report.message) == (None, None, "")
    assert recognise_error(error) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["error", "message", "code", "status", "type", "body", "n_ctx", "x"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JSON, st.integers(400, 599))
def test_any_body_is_read_without_a_failure(body: Any, status: int) -> None:
    for error in ({"status": status, "body": body}, refusal(status, {"error": body})):
        report = read_error(error)
        assert report.status == status
        assert len(report.message) <= 8_000
        assert (recognise_error(error) is not None) == (status == 413)
