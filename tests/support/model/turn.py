"""One request to the model server, and the means to answer it well or badly."""

from __future__ import annotations

import json
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler
from typing import Any

Json = dict[str, Any]

_LOOK_SECONDS = 0.01
# On close, drop what is unsent and send RST instead of FIN.
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class GoneError(Exception):
    """The client closed the connection before it had the whole answer."""


class Turn:
    """What a behaviour plays on. `request` is the decoded body.

    Waiting and sending raise `GoneError` or a `ConnectionError` once the client is gone.
    """

    def __init__(
        self,
        handler: BaseHTTPRequestHandler,
        request: Json,
        strategy: Callable[[Json], str],
        closing: threading.Event,
    ) -> None:
        self.request = request
        self._handler = handler
        self._strategy = strategy
        self._closing = closing

    @property
    def headers(self) -> Mapping[str, str]:
        """The request's headers, with lower-case names."""
        return {name.lower(): value for name, value in self._handler.headers.items()}

    def good_answer(self) -> str:
        """Return the text that the server's strategy gives for this request."""
        return self._strategy(self.request)

    def reply(self, status: int, body: str | Json, headers: Mapping[str, str]) -> None:
        """Send a whole response; a string goes out as HTML."""
        kind = "text/html; charset=utf-8" if isinstance(body, str) else "application/json"
        content = (body if isinstance(body, str) else json.dumps(body)).encode()
        self._handler.send_response_only(status)
        for name, value in {"Content-Type": kind, **headers}.items():
            self._handler.send_header(name, value)
        self._handler.send_header("Content-Length", str(len(content)))
        self._handler.end_headers()
        self._handler.wfile.write(content)

    def open_stream(self) -> None:
        """Send status 200 and the headers of an event stream."""
        self._handler.send_response_only(200)
        self._handler.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self._handler.send_header("Transfer-Encoding", "chunked")
        self._handler.end_headers()

    def delta(self, *, finish: str | None = None, **fields: Any) -> None:
        """Send one chunk of the answer."""
        self._event({"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]})

    def usage(self, text: str) -> None:
        """Send the token counts of an answer of `text`, if the request asked for them."""
        if not (self.request.get("stream_options") or {}).get("include_usage"):
            return
        prompt = len(json.dumps(self.request["messages"])) // 4
        counts = {"prompt_tokens": prompt, "completion_tokens": len(text) // 4}
        self._event({"choices": [], "usage": counts | {"total_tokens": sum(counts.values())}})

    def raw(self, text: str) -> None:
        """Send `text` as it is, as one piece of the stream."""
        content = text.encode()
        self._handler.wfile.write(f"{len(content):x}\r\n".encode() + content + b"\r\n")

    def end_stream(self, *, done: bool = True) -> None:
        """End the stream the regular way, or without its last event."""
        if done:
            self.raw("data: [DONE]\n\n")
        self._handler.wfile.write(b"0\r\n\r\n")

    def reset(self) -> None:
        """Break the connection off."""
        connection = self._handler.connection
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        # The socket stays open while a file refers to it.
        self._handler.rfile.close()
        connection.close()

    def pause(self, seconds: float | None = None) -> bool:
        """Wait, without end by default; false when the server closes meanwhile."""
        end = None if seconds is None else time.monotonic() + seconds
        while end is None or time.monotonic() < end:
            if self._closing.wait(_LOOK_SECONDS):
                return False
            self.look()
        return True

    def look(self) -> None:
        """Raise `GoneError` if the client has closed the connection."""
        connection = self._handler.connection
        readable, _, _ = select.select([connection], [], [], 0)
        if readable and not connection.recv(1, socket.MSG_PEEK):
            raise GoneError

    def _event(self, fields: Json) -> None:
        chunk = {
            "id": "chatcmpl-test",
            "object": "chat.completion.chunk",
            "created": 1_700_000_000,
            "model": self.request.get("model"),
            **fields,
        }
        self.raw(f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n")
