"""The summariser behind an OpenAI-compatible URL. Importing this module loads `openai`."""

from __future__ import annotations

import asyncio
import base64
import os
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import CancelledError, Future, wait
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

from openai import AsyncOpenAI, Timeout

from workers.settings.urls import http_url
from workers.summariser.completion import size_limit
from workers.summariser.contract import Reply, Stopped, SummaryRequest
from workers.summariser.endpoints import SummariserSettings, chain_fingerprint
from workers.summariser.passages import input_chars
from workers.summariser.prompts import chat_messages
from workers.summariser.streaming import CONNECT_SECONDS, ChatRequest, Timeouts, ask

OPENAI_URL = "https://api.openai.com/v1"

_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class _Connection:
    """The HTTP client and the event loop that it belongs to."""

    loop: LoopThread
    client: AsyncOpenAI


class OpenAISummariser:
    """A model behind a chat-completions endpoint, asked from any number of threads at once.

    All calls share one event loop in a background thread and one client that never retries (only
    the job does). Both start with the first call, and again in a forked child.

    `base_url` None means OpenAI's own; user and password in it are sent as Basic authorisation.
    An empty `api_key` suits local servers that need none. `first_byte_seconds`, `idle_seconds` and
    `total_seconds` limit each call; `extra_body` is added to each request. `context_length` is the
    model's window in tokens, if known. `clock` returns the wall clock, `poll_seconds` is the pause
    between two calls of `stop`. Raises `ValueError` for an invalid URL and for a key that no header
    can carry.
    """

    def __init__(
        self,
        *,
        model: str,
        base_url: str | None,
        api_key: str,
        first_byte_seconds: float = 300.0,
        idle_seconds: float = 120.0,
        total_seconds: float = 600.0,
        extra_body: Mapping[str, Any] = _NOTHING,
        context_length: int | None = None,
        clock: Callable[[], float] = time.time,
        poll_seconds: float = 0.25,
    ) -> None:
        self._model = model
        self._base_url, self._authorization = _without_credentials(http_url(base_url or OPENAI_URL))
        self._api_key = _sendable(api_key)
        self._timeouts = Timeouts(first_byte_seconds, idle_seconds, total_seconds)
        self._extra_body = dict(extra_body)
        self._context_length = context_length
        self._clock = clock
        self._poll_seconds = poll_seconds
        self._lock = threading.Lock()
        self._connection: _Connection | None = None
        self._inherited: _Connection | None = None
        self._closed = False

    @property
    def model(self) -> str:
        """The configured name, which may differ from the one in the endpoint's answers."""
        return self._model

    @property
    def fingerprint(self) -> int:
        """The fingerprint of a configuration that names only this model."""
        named = SummariserSettings.model_construct(
            model=self._model,
            base_url=self._base_url,
            context_length=self._context_length,
            extra_body=self._extra_body,
        )
        return chain_fingerprint(named)

    def room(self, summary_tokens: int) -> int:
        """Return how many characters of passages one request may hold beside summaries of
        `summary_tokens`."""
        return input_chars(self._context_length, summary_tokens)

    def summarise(self, request: SummaryRequest, stop: Callable[[], bool]) -> Reply:
        """Call the model once and wait for the whole answer.

        Raises `SummariserError`, and `Stopped` when `stop()` returned true or the summariser was
        closed; then the connection is closed too.
        """
        if stop():
            raise Stopped("not asked")
        call = self._start(request)
        try:
            while not wait({call}, timeout=self._poll_seconds).done:
                if stop():
                    raise Stopped("gave the answer up")
            return call.result()
        except CancelledError:
            raise Stopped("the summariser was closed") from None
        finally:
            call.cancel()

    def close(self) -> None:
        """End running calls, the connections and the thread. Idempotent."""
        with self._lock:
            self._closed = True
            connection, self._connection = self._connection, None
        if connection is not None and not connection.loop.inherited:
            connection.loop.close(last=connection.client.close())

    def _start(self, request: SummaryRequest) -> Future[Reply]:
        chat_request = ChatRequest(
            model=self._model,
            messages=chat_messages(request),
            extra_body=self._extra_body,
            timeouts=self._timeouts_for(request),
            limit_chars=size_limit(request),
        )
        with self._lock:
            if self._closed:
                raise Stopped("the summariser is closed")
            connection = self._open_connection()
            return connection.loop.submit(ask(connection.client, chat_request, self._clock))

    def _timeouts_for(self, request: SummaryRequest) -> Timeouts:
        usual = self._timeouts
        return Timeouts(
            first_byte=usual.first_byte,
            idle=usual.idle if request.idle_seconds is None else request.idle_seconds,
            total=usual.total if request.total_seconds is None else request.total_seconds,
        )

    def _open_connection(self) -> _Connection:
        if self._connection is not None and self._connection.loop.inherited:
            # Kept, not closed: its selector still belongs to the parent.
            self._inherited, self._connection = self._connection, None
        if self._connection is None:
            self._connection = _Connection(client=self._new_client(), loop=LoopThread("summariser"))
        return self._connection

    def _new_client(self) -> AsyncOpenAI:
        # Calls are minutes apart: a connection that is kept saves nothing and may be dead by then.
        headers = {"Connection": "close"} | self._authorization
        return AsyncOpenAI(
            api_key=self._api_key,
            base_url=self._base_url,
            max_retries=0,
            timeout=Timeout(None, connect=CONNECT_SECONDS),
            default_headers=headers,
        )


def _without_credentials(url: str) -> tuple[str, dict[str, str]]:
    """Return `url` without user and password, and the header that carries them instead.

    The transport logs each URL that it calls.
    """
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    if not at:
        return url, {}
    token = base64.b64encode(unquote(user).encode()).decode("ascii")
    return parts._replace(netloc=host).geturl(), {"Authorization": f"Basic {token}"}


def _sendable(api_key: str) -> str:
    key = api_key.strip()
    if not key.isascii() or not key.isprintable():
        raise ValueError("api_key holds characters that no HTTP header can carry")
    # The client does not start without one, and would read one from the environment.
    return key or "none"


T = TypeVar("T")


class LoopThread:
    """A thread with an event loop that runs coroutines for any number of threads.

    It belongs to the process that made it: after a fork the child has no such thread. `close` may
    be called once, from another thread.
    """

    def __init__(self, name: str) -> None:
        self._pid = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    @property
    def inherited(self) -> bool:
        """Whether this is a child process that was forked from the one with the thread."""
        return self._pid != os.getpid()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start `work`; cancelling the future cancels it at its next await."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def close(self, last: Coroutine[Any, Any, None]) -> None:
        """Cancel running tasks, then run `last`, then end the thread."""
        self.submit(self._shut_down(last)).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _shut_down(self, last: Coroutine[Any, Any, None]) -> None:
        for task in self._others():
            task.cancel()
        await self._drain()
        await last
        await self._loop.shutdown_asyncgens()
        await self._drain()

    async def _drain(self) -> None:
        """Wait for every task, also for those that close generators of finished ones.

        A generator that is still being closed when its loop stops is closed again by the garbage
        collector, which cannot await.
        """
        while others := self._others():
            await asyncio.gather(*others, return_exceptions=True)
            await asyncio.sleep(0)

    def _others(self) -> set[asyncio.Task[Any]]:
        return asyncio.all_tasks() - {asyncio.current_task()}
