"""The summariser's client against a real HTTP server that plays the model."""

from __future__ import annotations

import base64
import dataclasses
import gc
import logging
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import date
from pathlib import Path
from types import AsyncGeneratorType
from typing import Any

import pytest

from tests.support.model.behaviours import (
    BadJson,
    Behaviour,
    Cut,
    Echo,
    Empty,
    Events,
    FinishThen,
    Huge,
    KeepAlive,
    Length,
    NullContent,
    Page,
    PlainJson,
    Plan,
    ReasoningOnly,
    Refusal,
    Reset,
    Say,
    Secrets,
    Silence,
    Status,
    ToolCall,
    Trickle,
    WrongScript,
)
from tests.support.model.server import ModelServer, short_summary
from tests.support.observing.waiting import wait_until
from workers.summariser.client import OpenAISummariser
from workers.summariser.contract import (
    ErrorClass,
    Passage,
    Reply,
    Stopped,
    SummariserError,
    SummaryRequest,
    Task,
)

ROOT = Path(__file__).parents[3]

REQUEST = SummaryRequest(
    task=Task.ABSORB,
    previous="",
    question="Where is the violet umbrella?",
    passages=(Passage("assistant", "The violet umbrella is in the hall."),),
    target_tokens=200,
    replaced_tokens=1_000,
    today=date(2025, 3, 1),
)


def brief(value: object) -> str:
    return repr(value)[:60]


def never() -> bool:
    return False


@pytest.fixture(scope="module")
def _server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running


@pytest.fixture
def server(_server: ModelServer) -> ModelServer:
    _server.forget()
    return _server


@pytest.fixture(scope="module")
def summariser(_server: ModelServer) -> Iterator[OpenAISummariser]:
    with asking(_server.base_url) as ready:
        yield ready


@contextmanager
def asking(url: str, **options: Any) -> Iterator[OpenAISummariser]:
    settings: dict[str, Any] = {"model": "small-model", "api_key": "sk-test", "poll_seconds": 0.01}
    summariser = OpenAISummariser(base_url=url, **(settings | options))
    try:
        yield summariser
    finally:
        summariser.close()


def answer(summariser: OpenAISummariser) -> Reply:
    return summariser.summarise(REQUEST, never)


def failure(summariser: OpenAISummariser) -> SummariserError:
    with pytest.raises(SummariserError) as caught:
        summariser.summarise(REQUEST, never)
    return caught.value


def test_a_good_answer_comes_back_with_its_token_counts(
    server: ModelServer, summariser: OpenAISummariser
) -> None:
    reply = answer(summariser)
    assert reply.text == short_summary(server.requests[0])
    assert reply.model == "small-model"
    assert reply.prompt_tokens is not None
    assert reply.prompt_tokens > 0
    assert reply.completion_tokens == len(reply.text) // 4
    assert 0 < reply.seconds < 10


def test_a_request_streams_and_limits_nothing(
    server: ModelServer, summariser: OpenAISummariser
) -> None:
    answer(summariser)
    (body,) = server.requests
    assert set(body) == {"model", "messages", "stream", "stream_options"}
    assert body["stream"] is True
    assert body["stream_options"] == {"include_usage": True}
    assert "violet umbrella is in the hall" in str(body["messages"])
    assert server.headers[0]["authorization"] == "Bearer sk-test"


def test_the_extra_body_is_added_to_each_request(server: ModelServer) -> None:
    with asking(server.base_url, extra_body={"reasoning_effort": "low"}) as eager:
        answer(eager)
    assert server.requests[0]["reasoning_effort"] == "low"


OVERFLOW = "This model's maximum context length is 8192 tokens. However, you sent 9000."


@pytest.mark.parametrize(
    ("behaviour", "expected"),
    [
        (Status(400), ErrorClass.BAD_REQUEST),
        (Status(401), ErrorClass.AUTH),
        (Status(403), ErrorClass.AUTH),
        (Status(404), ErrorClass.NOT_FOUND),
        (Status(408), ErrorClass.SERVER_ERROR),
        (Status(409), ErrorClass.SERVER_ERROR),
        (Status(422), ErrorClass.BAD_REQUEST),
        (Status(425), ErrorClass.SERVER_ERROR),
        (Status(429), ErrorClass.RATE_LIMITED),
        (Status(500), ErrorClass.SERVER_ERROR),
        (Status(502, body="<h1>Bad gateway</h1>"), ErrorClass.SERVER_ERROR),
        (Status(529), ErrorClass.SERVER_ERROR),
        (Status(400, body={"error": {"message": OVERFLOW}}), ErrorClass.CONTEXT_OVERFLOW),
        (Status(422, body={"detail": "prompt is too long"}), ErrorClass.CONTEXT_OVERFLOW),
        (Reset(), ErrorClass.CONNECTION),
        (Reset(chunks=2), ErrorClass.INTERRUPTED),
        (Cut(), ErrorClass.INTERRUPTED),
        (ReasoningOnly(), ErrorClass.EMPTY),
        (Empty(), ErrorClass.EMPTY),
        (NullContent(), ErrorClass.EMPTY),
        (Say("<think>It says that"), ErrorClass.EMPTY),
        (Length(), ErrorClass.CUT_BY_LENGTH),
        (Say("", finish="length"), ErrorClass.CUT_BY_LENGTH),
        (ToolCall(), ErrorClass.TOOL_CALL),
        (Say("text", finish="function_call"), ErrorClass.TOOL_CALL),
        (Refusal(), ErrorClass.REFUSAL),
        (Say("text", finish="content_filter"), ErrorClass.REFUSAL),
        (Huge(), ErrorClass.TOO_LARGE),
        (Page(), ErrorClass.ERROR_PAGE),
        (BadJson(), ErrorClass.ERROR_PAGE),
        (Events(("[1, 2]",)), ErrorClass.ERROR_PAGE),
        (Events(("null",)), ErrorClass.ERROR_PAGE),
        (Events(("[" * 100_000,)), ErrorClass.ERROR_PAGE),
        (PlainJson({"status": "ok"}), ErrorClass.ERROR_PAGE),
        (Events(('{"error": {"message": "overloaded"}}',)), ErrorClass.SERVER_ERROR),
        (PlainJson({"error": {"message": "overloaded"}}), ErrorClass.SERVER_ERROR),
        (Events(('{"error": {"message": "slow down", "code": 429}}',)), ErrorClass.RATE_LIMITED),
        (PlainJson({"error": {"message": OVERFLOW}}), ErrorClass.CONTEXT_OVERFLOW),
    ],
    ids=brief,
)
def test_each_way_to_fail_has_its_class_and_costs_one_request(
    server: ModelServer, summariser: OpenAISummariser, behaviour: Behaviour, expected: ErrorClass
) -> None:
    server.always(behaviour)
    assert failure(summariser).error_class is expected
    assert len(server.requests) == 1
    server.wait_until_idle()


@pytest.mark.parametrize(
    "behaviour",
    [
        Echo(),
        Huge(),
        BadJson(),
        Events(("[1, 2]", "[1, 2]")),
        Events(("[" * 100_000,)),
        Events(('{"error": {"message": "overloaded"}}',)),
        ToolCall(),
        Reset(chunks=2),
        Cut(),
        Silence(chunks=2),
    ],
    ids=brief,
)
def test_no_stream_is_left_half_read_to_the_garbage_collector(
    server: ModelServer, behaviour: Behaviour
) -> None:
    server.always(behaviour)
    gc.collect()
    gc.disable()
    try:
        with asking(server.base_url, total_seconds=0.5) as summariser:
            with suppress(SummariserError):
                summariser.summarise(REQUEST, never)
            wait_until(lambda: not _half_read(), "every stream was read or closed")
    finally:
        gc.enable()


def _half_read() -> list[str]:
    return [
        each.__qualname__
        for each in gc.get_objects()
        if isinstance(each, AsyncGeneratorType) and each.ag_frame is not None
    ]


@pytest.mark.parametrize("behaviour", [Plan(), Echo(), Secrets(), WrongScript()], ids=brief)
def test_text_comes_back_unjudged(
    server: ModelServer, summariser: OpenAISummariser, behaviour: Behaviour
) -> None:
    server.always(behaviour)
    assert answer(summariser).text


def test_a_server_that_does_not_stream_is_understood(
    server: ModelServer, summariser: OpenAISummariser
) -> None:
    server.always(PlainJson())
    reply = answer(summariser)
    assert reply.text == short_summary(server.requests[0])
    assert (reply.prompt_tokens, reply.completion_tokens) == (11, 7)


def test_thinking_aloud_is_left_out(server: ModelServer, summariser: OpenAISummariser) -> None:
    server.always(Say("<think>They want it short.</think>\n\nThe umbrella was found."))
    assert answer(summariser).text == "The umbrella was found."


def test_thinking_aloud_does_not_count_as_size(
    server: ModelServer, summariser: OpenAISummariser
) -> None:
    server.always(Say(f"<think>{'Hm. ' * 20_000}</think>Found."))
    assert answer(summariser).text == "Found."


@pytest.mark.parametrize(
    ("behaviour", "expected"),
    [
        (Status(429, retry_after="7"), 7.0),
        (Status(429, retry_after="1.5"), 1.5),
        (Status(503, retry_after="30"), 30.0),
        (Status(429, headers={"retry-after-ms": "250"}), 0.25),
        (Status(429, retry_after="soon"), None),
        (Status(429), None),
    ],
    ids=brief,
)
def test_the_wait_that_the_endpoint_asks_for_is_reported(
    server: ModelServer, summariser: OpenAISummariser, behaviour: Behaviour, expected: float | None
) -> None:
    server.always(behaviour)
    assert failure(summariser).retry_after == expected


def test_a_retry_after_date_is_measured_from_the_endpoints_own_clock(
    server: ModelServer, summariser: OpenAISummariser
) -> None:
    dates = {
        "Retry-After": "Sat, 01 Mar 2025 10:02:00 GMT",
        "Date": "Sat, 01 Mar 2025 10:00:30 GMT",
    }
    server.always(Status(503, headers=dates))
    assert failure(summariser).retry_after == 90.0


@pytest.mark.parametrize(
    ("behaviour", "limits", "expected"),
    [
        (Silence(), {"first_byte_seconds": 0.15}, ErrorClass.FIRST_BYTE_TIMEOUT),
        (KeepAlive(), {"first_byte_seconds": 0.15}, ErrorClass.FIRST_BYTE_TIMEOUT),
        (Silence(chunks=2), {"idle_seconds": 0.15}, ErrorClass.IDLE_TIMEOUT),
        (Trickle(), {"total_seconds": 0.3}, ErrorClass.TOTAL_TIMEOUT),
        (Trickle(field_name="reasoning"), {"total_seconds": 0.3}, ErrorClass.TOTAL_TIMEOUT),
        (Silence(), {"total_seconds": 0.15}, ErrorClass.TOTAL_TIMEOUT),
    ],
    ids=brief,
)
def test_each_deadline_ends_the_call_and_the_connection(
    server: ModelServer, behaviour: Behaviour, limits: dict[str, float], expected: ErrorClass
) -> None:
    server.always(behaviour)
    with asking(server.base_url, **limits) as summariser:
        with pytest.raises(SummariserError) as caught:
            summariser.summarise(REQUEST, never)
        server.wait_until_idle()
    assert caught.value.error_class is expected
    assert server.given_up == 1
    assert len(server.requests) == 1


def test_progress_prolongs_the_first_byte_and_idle_limits(server: ModelServer) -> None:
    server.always(Trickle(every=0.05))
    limits = {"first_byte_seconds": 1.5, "idle_seconds": 1.5, "total_seconds": 2.5}
    with asking(server.base_url, **limits) as hurried:
        assert failure(hurried).error_class is ErrorClass.TOTAL_TIMEOUT


@pytest.mark.parametrize("behaviour", [FinishThen(), FinishThen(reset=True)], ids=brief)
def test_nothing_after_the_finish_reason_costs_the_answer(
    server: ModelServer, behaviour: Behaviour
) -> None:
    server.always(behaviour)
    with asking(server.base_url, total_seconds=1.5) as hurried:
        assert answer(hurried).text == short_summary(server.requests[0])


def test_stop_is_asked_while_waiting_and_closes_the_connection(server: ModelServer) -> None:
    asked = 0

    def stop() -> bool:
        nonlocal asked
        asked += 1
        return asked > 3 and server.in_flight == 1

    with asking(server.base_url) as summariser, server.hold():
        with pytest.raises(Stopped):
            summariser.summarise(REQUEST, stop)
        server.wait_until_idle()
    assert server.given_up == 1
    assert asked > 3


def test_a_caller_that_stops_already_asks_nothing(server: ModelServer) -> None:
    with asking(server.base_url) as summariser, pytest.raises(Stopped):
        summariser.summarise(REQUEST, lambda: True)
    assert server.requests == []


def test_an_error_in_the_callers_stop_ends_the_call(server: ModelServer) -> None:
    def stop() -> bool:
        if server.in_flight:
            raise LookupError("lease lost")
        return False

    with asking(server.base_url) as summariser, server.hold():
        with pytest.raises(LookupError):
            summariser.summarise(REQUEST, stop)
        server.wait_until_idle()
    assert server.given_up == 1


def test_many_threads_share_one_client_and_one_loop(server: ModelServer) -> None:
    before = _loop_threads()
    with asking(server.base_url) as summariser, ThreadPoolExecutor(16) as pool:
        with server.hold():
            calls = [
                pool.submit(summariser.summarise, _about(number), never) for number in range(16)
            ]
            server.wait_for_requests(16)
            assert server.concurrent_max == 16
            assert _loop_threads() == before + 1
        texts = {call.result().text for call in calls}
    assert len(texts) == 16
    assert _loop_threads() == before


def test_closing_ends_running_calls_and_refuses_new_ones(server: ModelServer) -> None:
    with asking(server.base_url) as summariser, ThreadPoolExecutor(1) as pool, server.hold():
        call = pool.submit(summariser.summarise, REQUEST, never)
        server.wait_for_requests(1)
        summariser.close()
        summariser.close()
        server.wait_until_idle()
        with pytest.raises(Stopped):
            call.result()
        with pytest.raises(Stopped):
            summariser.summarise(REQUEST, never)
    assert server.given_up == 1
    assert len(server.requests) == 1
    gc.collect()


def test_a_refused_connection_names_the_host_and_no_secret() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with asking(f"http://joe:hunter2@127.0.0.1:{port}/v1") as misled:
        error = failure(misled)
    assert error.error_class is ErrorClass.CONNECTION
    assert f"127.0.0.1:{port}" in error.detail
    assert "hunter2" not in str(error)


def test_a_wrong_path_is_not_found(server: ModelServer) -> None:
    with asking(f"{server.base_url}/nowhere") as misled:
        assert failure(misled).error_class is ErrorClass.NOT_FOUND


def test_credentials_in_the_url_are_sent_and_never_logged(
    server: ModelServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with asking(f"http://joe:p%40ss@127.0.0.1:{server.port}/v1") as summariser:
        summariser.summarise(REQUEST, never)
    sent = server.headers[0]["authorization"]
    assert base64.b64decode(sent.removeprefix("Basic ")) == b"joe:p@ss"
    assert "HTTP Request" in caplog.text
    assert "p%40ss" not in caplog.text
    assert "violet" not in caplog.text


def test_an_endpoints_words_about_the_conversation_go_no_further(
    server: ModelServer, summariser: OpenAISummariser
) -> None:
    quoting = {"error": {"message": "cannot read: violet umbrella", "code": "sk-test"}}
    for behaviour in (
        Status(400, body=quoting),
        PlainJson(quoting),
        Events((str(quoting).replace("'", '"'),)),
    ):
        server.always(behaviour)
        shown = "".join(traceback.format_exception(failure(summariser)))
        assert "SummariserError" in shown
        assert "violet" not in shown
        assert "sk-test" not in shown


def test_half_surrogates_do_not_break_the_request(
    server: ModelServer, summariser: OpenAISummariser
) -> None:
    broken = dataclasses.replace(REQUEST, passages=(Passage("assistant", "x\ud83dy"),))
    summariser.summarise(broken, never)
    assert "x\ufffdy" in str(server.requests[0]["messages"])


def test_characters_split_over_chunks_are_whole_in_the_answer(
    server: ModelServer, summariser: OpenAISummariser
) -> None:
    chunk = '{"choices": [{"delta": {"content": "%s"}, "finish_reason": %s}]}'
    halves = (chunk % ("a\\ud83d", "null"), chunk % ("\\ude00b\\ud83dc", '"stop"'))
    server.always(Events(halves))
    assert answer(summariser).text == "a😀b\ufffdc"


@pytest.mark.parametrize("key", ["kéy-secret", "key-secret\nX-Other: 1"])
def test_a_key_that_no_header_can_carry_is_refused_at_once(key: str) -> None:
    with pytest.raises(ValueError, match="api_key") as caught:
        OpenAISummariser(model="m", base_url="http://127.0.0.1/v1", api_key=key)
    assert "secret" not in str(caught.value)


def test_a_server_without_a_key_is_asked_without_one_from_the_environment(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-somebody-else")
    with asking(server.base_url, api_key="") as keyless:
        answer(keyless)
    assert "somebody" not in server.headers[0]["authorization"]


def test_a_forked_child_asks_over_a_line_of_its_own(server: ModelServer) -> None:
    program = """
import os, sys
from tests.integration.summariser.test_client import REQUEST, asking, never
with asking(sys.argv[1]) as summariser:
    summariser.summarise(REQUEST, never)
    child = os.fork()
    if child == 0:
        summariser.summarise(REQUEST, never)
        summariser.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    summariser.summarise(REQUEST, never)
"""
    subprocess.run([sys.executable, "-c", program, server.base_url], check=True, cwd=ROOT)
    assert len(server.requests) == 3


def test_the_contract_does_not_load_the_client() -> None:
    program = "import sys, workers.summariser.contract; sys.exit('openai' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)


def test_the_server_serves_other_processes() -> None:
    command = [
        sys.executable,
        "-m",
        "tests.support.model.server",
        "--port",
        "0",
        "--always",
        "Empty",
    ]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        with asking(process.stdout.readline().strip()) as summariser:
            error = failure(summariser)
        process.stdin.close()
        assert process.wait(180) == 0
    assert error.error_class is ErrorClass.EMPTY


def _about(number: int) -> SummaryRequest:
    return dataclasses.replace(REQUEST, passages=(Passage("assistant", f"Number {number}."),))


def _loop_threads() -> int:
    return sum(thread.name == "summariser" for thread in threading.enumerate())
