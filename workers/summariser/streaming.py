"""One streamed chat completion, from the request to the text or the error."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import httpx2
from openai import (
    APIConnectionError,
    APIError,
    APIStatusError,
    AsyncAPIResponse,
    AsyncOpenAI,
    AsyncStream,
)
from openai.types.chat import ChatCompletionChunk, ChatCompletionMessageParam

from workers.summariser.completion import Completion
from workers.summariser.contract import ErrorClass, Reply, SummariserError
from workers.summariser.failures import reported_error, status_error, transport_error

Response: TypeAlias = AsyncAPIResponse[AsyncStream[ChatCompletionChunk]]

Receive: TypeAlias = Callable[[Mapping[str, Any]], None]

EVENT_STREAM = "text/event-stream"
MAX_BODY_BYTES = 4 * 1024 * 1024
"""Largest completion that is not streamed, its reasoning included."""


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A request for a chat completion, and the limits of its answer."""

    model: str
    messages: Sequence[Mapping[str, str]]
    extra_body: Mapping[str, Any]
    timeouts: Timeouts
    limit_chars: int


async def ask(client: AsyncOpenAI, chat_request: ChatRequest, clock: Callable[[], float]) -> Reply:
    """Send one request, and only one, and return the whole answer.

    Neither an output limit nor tools are sent. `clock` returns the wall clock in seconds. Raises
    `SummariserError`; cancelling closes the connection.
    """
    now = asyncio.get_running_loop().time
    started = now()
    deadline = Deadline(chat_request.timeouts, started)
    answer = Completion(chat_request.limit_chars)

    def receive(payload: Mapping[str, Any]) -> None:
        if answer.take(payload):
            deadline.progress(now())
        if answer.finished:
            deadline.finish(now())
        alarm.reschedule(deadline.until)

    try:
        async with asyncio.timeout_at(deadline.until) as alarm:
            await _stream(client, chat_request, clock, receive)
    except TimeoutError:
        if not answer.finished:
            waited = f"gave up after {now() - started:.1f} s"
            raise SummariserError(deadline.error_class, waited) from None
    except SummariserError as error:
        # After the finish reason, failures of the connection do not matter.
        if not (answer.finished and error.error_class is ErrorClass.INTERRUPTED):
            raise
    return Reply(
        text=_whole(answer.text()),
        model=chat_request.model,
        prompt_tokens=answer.prompt_tokens,
        completion_tokens=answer.completion_tokens,
        seconds=now() - started,
    )


async def _stream(
    client: AsyncOpenAI, chat_request: ChatRequest, clock: Callable[[], float], receive: Receive
) -> None:
    """Send the request and pass the JSON objects of the answer to `receive`.

    The client's own errors are not passed on, since their text may quote the request, and each
    holds the half-read stream: an error raised within their handler would still refer to them.
    """
    answering = False
    try:
        async with client.chat.completions.with_streaming_response.create(
            model=chat_request.model,
            messages=cast("list[ChatCompletionMessageParam]", list(chat_request.messages)),
            stream=True,
            stream_options={"include_usage": True},
            extra_body=dict(chat_request.extra_body) or None,
        ) as response:
            answering = True
            await _decode(response, receive)
    except APIStatusError as error:
        headers = error.response.headers
        failure = status_error(error.status_code, error.body, headers, clock())
    except (APIConnectionError, httpx2.RequestError, OSError) as error:
        host = client.base_url.netloc.decode("ascii", "replace")
        failure = transport_error(error, host, answering=answering)
    except APIError as error:
        failure = reported_error(error.body or error.message)
    else:
        return
    raise failure


async def _decode(response: Response, receive: Receive) -> None:
    kind = response.headers.get("content-type", EVENT_STREAM).partition(";")[0].strip().lower()
    try:
        if kind == EVENT_STREAM:
            await _receive_all(await response.parse(), receive)
        elif kind.endswith("json"):
            receive(_completion(json.loads(await _body(response))))
        else:
            raise SummariserError(ErrorClass.ERROR_PAGE, "neither an event stream nor JSON")
    except (ValueError, RecursionError):
        pass
    else:
        return
    raise SummariserError(ErrorClass.ERROR_PAGE, "invalid JSON")


async def _receive_all(stream: AsyncStream[ChatCompletionChunk], receive: Receive) -> None:
    """Pass each event to `receive`; after a refusal, read the stream to its end.

    The stream's generators refer to each other. Half read, they would be closed by the garbage
    collector, in any thread and while the loop closes them too.
    """
    try:
        async for chunk in stream:
            receive(_chunk(chunk))
    except SummariserError:
        await stream.close()
        with suppress(Exception):  # raised because it is closed
            async for _ in stream:
                pass
        raise


def _chunk(chunk: object) -> Mapping[str, Any]:
    # The client passes on any JSON value of an event, despite its declared type.
    if not isinstance(chunk, ChatCompletionChunk):
        raise SummariserError(ErrorClass.ERROR_PAGE, "an event that is no completion chunk")
    return chunk.to_dict(warnings=False)


async def _body(response: Response) -> bytes:
    body = bytearray()
    async for piece in response.iter_bytes():
        body += piece
        if len(body) > MAX_BODY_BYTES:
            raise SummariserError(ErrorClass.TOO_LARGE, f"over {MAX_BODY_BYTES} bytes")
    return bytes(body)


def _completion(body: object) -> Mapping[str, Any]:
    """Return the completion of an endpoint that does not stream."""
    match body:
        case {"choices": [*_]}:
            return cast("Mapping[str, Any]", body)
        case {"error": error} if error:
            raise reported_error(error)
    raise SummariserError(ErrorClass.ERROR_PAGE, "JSON that is no completion")


def _whole(text: str) -> str:
    """Return `text` with surrogate pairs that chunks split joined, and single halves replaced."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


CONNECT_SECONDS = 10.0
"""Seconds after which a host that accepts no connection is down, not slow."""

USAGE_SECONDS = 5.0
"""Seconds to wait for the token counts once the answer itself is complete."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Limits of a call in seconds: to the first text, of silence after it, and in all."""

    first_byte: float = 300.0
    idle: float = 120.0
    total: float = 600.0


class Deadline:
    """The time at which a call is given up, and the error then.

    Times are seconds of one monotonic clock.
    """

    def __init__(self, timeouts: Timeouts, now: float) -> None:
        self._idle = timeouts.idle
        self._end = now + timeouts.total
        self._silent_until = now + timeouts.first_byte
        self._silence = ErrorClass.FIRST_BYTE_TIMEOUT

    def progress(self, now: float) -> None:
        """Record that text or reasoning arrived."""
        self._silent_until = now + self._idle
        self._silence = ErrorClass.IDLE_TIMEOUT

    def finish(self, now: float) -> None:
        """Record that the answer is complete; only its token counts may follow."""
        self._silent_until = now + USAGE_SECONDS

    @property
    def until(self) -> float:
        return min(self._silent_until, self._end)

    @property
    def error_class(self) -> ErrorClass:
        """The error once `until` has passed."""
        return self._silence if self._silent_until <= self._end else ErrorClass.TOTAL_TIMEOUT
