"""A local HTTP server that is the model of the tests.

It speaks the OpenAI chat-completions protocol, streaming included. In a test:

    with ModelServer() as server:
        server.fail_next(Status(429, retry_after="7"), Empty())
        ...  # ask server.base_url

On its own, for tests in other processes (`python -m tests.support.model.server --port 0`), it
prints its URL on a line and serves until its standard input ends.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

from tests.support.model import behaviours
from tests.support.model.behaviours import Behaviour, Good
from tests.support.model.turn import GoneError, Json, Turn
from workers.summariser.headings import Section

Strategy = Callable[[Json], str]

_CJK = re.compile(r"[぀-ヿ㐀-鿿가-힯]")


def short_summary(request: Json) -> str:
    """Return a good short answer: it depends on the request alone and is in its script."""
    asked = str(request["messages"][-1].get("content"))
    digest = hashlib.sha256(json.dumps(request["messages"]).encode()).hexdigest()[:8]
    if len(_CJK.findall(asked)) > len(asked) / 10:
        text = f"摘要 {digest}:助手查阅了相关信息,并完成了此前的请求。"
    else:
        text = (
            f"Summary {digest}: the assistant looked up what was needed and finished the request."
        )
    return _in_sections(text) if _wants_sections(request) else text


def _wants_sections(request: Json) -> bool:
    return Section.STATE.heading in str(request["messages"][0].get("content"))


def _in_sections(text: str) -> str:
    lines = dict.fromkeys(Section, "(none)") | {Section.PROGRESS: f"1. {text}"}
    return "\n".join(f"{section.heading}\n{line}" for section, line in lines.items())


class ModelServer:
    """The model: what it answers, and what it was asked.

    Free port on 127.0.0.1, a daemon thread per connection. Everything may be called from any
    thread. `close` ends the answers that still run.
    """

    def __init__(self, port: int = 0) -> None:
        self._lock = threading.Condition()
        self._strategy: Strategy = short_summary
        self._next: deque[Behaviour] = deque()
        self._always: Behaviour = Good()
        self._requests: list[Json] = []
        self._headers: list[dict[str, str]] = []
        self._in_flight = 0
        self._concurrent_max = 0
        self._given_up = 0
        self._gate = threading.Event()
        self._gate.set()
        self._closing = threading.Event()
        self._http = _Http(port, self._serve)
        self._thread = threading.Thread(
            target=self._http.serve_forever, args=(0.02,), name="model-server", daemon=True
        )
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def port(self) -> int:
        return int(self._http.server_address[1])

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def requests(self) -> list[Json]:
        """Every request body so far, oldest first."""
        with self._lock:
            return list(self._requests)

    @property
    def headers(self) -> list[dict[str, str]]:
        """The headers of those requests, with lower-case names."""
        with self._lock:
            return list(self._headers)

    @property
    def concurrent_max(self) -> int:
        """The most requests that were being answered at one time."""
        with self._lock:
            return self._concurrent_max

    @property
    def in_flight(self) -> int:
        """Requests that are being answered now."""
        with self._lock:
            return self._in_flight

    @property
    def given_up(self) -> int:
        """Answers during which the client went away."""
        with self._lock:
            return self._given_up

    def answer(self, strategy: Strategy) -> None:
        """Let good answers be `strategy(request)` from now on."""
        with self._lock:
            self._strategy = strategy

    def fail_next(self, *behaviours: Behaviour) -> None:
        """Answer the next requests so, one each; after them as before."""
        with self._lock:
            self._next.extend(behaviours)

    def always(self, behaviour: Behaviour) -> None:
        """Answer so from now on, and forget what `fail_next` had in store."""
        with self._lock:
            self._next.clear()
            self._always = behaviour

    def forget(self) -> None:
        """Be as new: no requests, no counts, good answers."""
        self.wait_until_idle()
        with self._lock:
            self._next.clear()
            self._always = Good()
            self._strategy = short_summary
            self._requests.clear()
            self._headers.clear()
            self._concurrent_max = 0
            self._given_up = 0

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Keep every answer back until the block ends."""
        self._gate.clear()
        try:
            yield
        finally:
            self._gate.set()

    def wait_for_requests(self, count: int, timeout: float = 180.0) -> None:
        """Return once `count` requests have come in altogether."""
        self._wait_until(lambda: len(self._requests) >= count, f"{count} requests", timeout)

    def wait_until_idle(self, timeout: float = 180.0) -> None:
        """Return once no request is being answered."""
        self._wait_until(lambda: self._in_flight == 0, "no request in flight", timeout)

    def close(self) -> None:
        """Break off what runs and stop listening. Repeating it does nothing."""
        if self._closing.is_set():
            return
        self._closing.set()
        self._gate.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()
        self.wait_until_idle()

    def _serve(self, handler: _Handler, request: Json) -> None:
        behaviour, strategy = self._arrived(handler, request)
        turn = Turn(handler, request, strategy, self._closing)
        try:
            while not self._gate.wait(0.01):
                turn.look()
            behaviour.play(turn)
        except (ConnectionError, GoneError):
            with self._lock:
                self._given_up += 1
        finally:
            with self._lock:
                self._in_flight -= 1
                self._lock.notify_all()

    def _arrived(self, handler: _Handler, request: Json) -> tuple[Behaviour, Strategy]:
        with self._lock:
            self._requests.append(request)
            self._headers.append({name.lower(): value for name, value in handler.headers.items()})
            self._in_flight += 1
            self._concurrent_max = max(self._concurrent_max, self._in_flight)
            self._lock.notify_all()
            return self._next.popleft() if self._next else self._always, self._strategy

    def _wait_until(self, condition: Callable[[], bool], what: str, timeout: float) -> None:
        with self._lock:
            if not self._lock.wait_for(condition, timeout):
                raise AssertionError(f"the model server still waits for {what}")


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int, serve: Callable[[_Handler, Json], None]) -> None:
        self.serve = serve
        super().__init__(("127.0.0.1", port), _Handler)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Http

    def do_POST(self) -> None:
        self.close_connection = True
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        if self.path == "/v1/chat/completions":
            self.server.serve(self, json.loads(body))
        else:
            self.send_error(404)

    def log_request(self, code: object = "-", size: object = "-") -> None:
        """Say nothing: tests read `ModelServer.requests`."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve on its own, until standard input ends."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--always", default="Good", help="name of the behaviour to show")
    options = parser.parse_args(arguments)
    with ModelServer(options.port) as server:
        server.always(getattr(behaviours, options.always)())
        sys.stdout.write(f"{server.base_url}\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    main()
