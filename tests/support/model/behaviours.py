"""What the model of the tests can do, good and bad: one value per way to answer.

Each is played on one `Turn` of the server. Those that go on forever end when the client goes
away or the server closes, so no test waits for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from tests.support.model.turn import Json, Turn


class Behaviour(Protocol):
    def play(self, turn: Turn) -> None:
        """Answer the request."""


def stream_text(
    turn: Turn, text: str, *, finish: str = "stop", pieces: int = 4, field_name: str = "content"
) -> None:
    """Send `text` as a regular stream in about `pieces` chunks."""
    turn.open_stream()
    turn.delta(role="assistant", content="")
    size = max(1, -(-len(text) // pieces))
    for start in range(0, len(text), size):
        turn.delta(**{field_name: text[start : start + size]})
    turn.delta(finish=finish)
    turn.usage(text)
    turn.end_stream()


@dataclass(frozen=True)
class Good:
    """The answer of the server's strategy."""

    def play(self, turn: Turn) -> None:
        stream_text(turn, turn.good_answer())


@dataclass(frozen=True)
class Say:
    """A fixed text, ended by `finish`."""

    text: str
    finish: str = "stop"

    def play(self, turn: Turn) -> None:
        stream_text(turn, self.text, finish=self.finish)


@dataclass(frozen=True)
class Status:
    """An HTTP status that is no success."""

    code: int
    retry_after: str | None = None
    body: str | Json = field(default_factory=lambda: {"error": {"message": "refused by the test"}})
    headers: Mapping[str, str] = field(default_factory=dict)

    def play(self, turn: Turn) -> None:
        extra = {} if self.retry_after is None else {"Retry-After": self.retry_after}
        turn.reply(self.code, self.body, {**self.headers, **extra})


@dataclass(frozen=True)
class Reset:
    """The connection breaks before any answer, or after `chunks` of it."""

    chunks: int = 0

    def play(self, turn: Turn) -> None:
        if self.chunks:
            _some_chunks(turn, self.chunks)
        turn.reset()


@dataclass(frozen=True)
class Silence:
    """Nothing, or `chunks` and then nothing, while the connection stays open."""

    chunks: int = 0

    def play(self, turn: Turn) -> None:
        if self.chunks:
            _some_chunks(turn, self.chunks)
        turn.pause()


@dataclass(frozen=True)
class KeepAlive:
    """Comments that keep the connection busy and say nothing, for ever."""

    every: float = 0.02

    def play(self, turn: Turn) -> None:
        turn.open_stream()
        turn.delta(role="assistant", content="")
        while turn.pause(self.every):
            turn.raw(": still here\n\n")


@dataclass(frozen=True)
class Trickle:
    """A few characters at a time, for ever."""

    every: float = 0.02
    field_name: str = "content"

    def play(self, turn: Turn) -> None:
        turn.open_stream()
        while turn.pause(self.every):
            turn.delta(**{self.field_name: "la "})


@dataclass(frozen=True)
class ReasoningOnly:
    """Thinks, and stops without a word."""

    def play(self, turn: Turn) -> None:
        stream_text(turn, "The user wants a summary. Let me see.", field_name="reasoning_content")


@dataclass(frozen=True)
class Length:
    """Cut off by an output limit."""

    def play(self, turn: Turn) -> None:
        stream_text(turn, turn.good_answer(), finish="length")


@dataclass(frozen=True)
class Empty:
    """A regular answer without text."""

    def play(self, turn: Turn) -> None:
        stream_text(turn, "")


@dataclass(frozen=True)
class NullContent:
    """A regular answer whose content is null."""

    def play(self, turn: Turn) -> None:
        turn.open_stream()
        turn.delta(role="assistant", content=None)
        turn.delta(finish="stop", content=None)
        turn.end_stream()


@dataclass(frozen=True)
class ToolCall:
    """Calls a tool that nobody offered."""

    def play(self, turn: Turn) -> None:
        function = {"name": "write_file", "arguments": '{"path": "notes.md"}'}
        call = {"index": 0, "id": "call_1", "type": "function", "function": function}
        turn.open_stream()
        turn.delta(role="assistant", content=None, tool_calls=[call])
        turn.delta(finish="tool_calls")
        turn.end_stream()


@dataclass(frozen=True)
class Refusal:
    """Declines in the field that the protocol has for it."""

    def play(self, turn: Turn) -> None:
        stream_text(turn, "I cannot help with that.", field_name="refusal")


@dataclass(frozen=True)
class Plan:
    """Says what it would do instead of doing it."""

    def play(self, turn: Turn) -> None:
        stream_text(turn, "I will now read the conversation and then write a summary of it.")


@dataclass(frozen=True)
class Echo:
    """Repeats its input."""

    def play(self, turn: Turn) -> None:
        stream_text(turn, str(turn.request["messages"][-1]["content"]))


@dataclass(frozen=True)
class Huge:
    """An answer far beyond what was asked for."""

    chars: int = 100_000

    def play(self, turn: Turn) -> None:
        stream_text(turn, ("All of it matters. " * self.chars)[: self.chars], pieces=50)


@dataclass(frozen=True)
class WrongScript:
    """A fluent answer in Cyrillic letters."""

    def play(self, turn: Turn) -> None:
        stream_text(turn, "Пользователь попросил исправить ошибку, и помощник исправил её. " * 3)


@dataclass(frozen=True)
class Secrets:
    """A summary with credentials in it, of the kinds that redaction knows."""

    def play(self, turn: Turn) -> None:
        # Put together here, so that no scanner takes this file for a leak.
        aws = "AKIA" + "Q3EGRZLM7T2WXYKD"
        github = "ghp_" + "9aB3dE5fG7hJ1kL2mN4pQ6rS8tU0vW1xY2zA"
        said = f"Summary: the deployment uses the key {aws} and the token {github}."
        stream_text(turn, said)


@dataclass(frozen=True)
class Page:
    """A web page with status 200, as from a proxy or a captive portal."""

    def play(self, turn: Turn) -> None:
        turn.reply(200, "<!doctype html><title>Sign in</title><p>Please sign in.", {})


@dataclass(frozen=True)
class BadJson:
    """A stream that breaks off inside a JSON object."""

    def play(self, turn: Turn) -> None:
        _some_chunks(turn, 1)
        turn.raw('data: {"choices": [{"delta": {"cont\n\n')
        turn.end_stream(done=False)


@dataclass(frozen=True)
class Events:
    """A stream of exactly these events."""

    lines: tuple[str, ...]

    def play(self, turn: Turn) -> None:
        turn.open_stream()
        for line in self.lines:
            turn.raw(f"data: {line}\n\n")
        turn.end_stream(done=False)


@dataclass(frozen=True)
class Cut:
    """A stream that ends regularly in the middle of the answer."""

    def play(self, turn: Turn) -> None:
        _some_chunks(turn, 2)
        turn.end_stream(done=False)


@dataclass(frozen=True)
class PlainJson:
    """One JSON body, as from a server that does not know streaming."""

    body: Json | None = None

    def play(self, turn: Turn) -> None:
        message = {"role": "assistant", "content": turn.good_answer()}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
        whole = {"id": "c1", "object": "chat.completion", "choices": [choice], "usage": usage}
        turn.reply(200, whole if self.body is None else self.body, {})


@dataclass(frozen=True)
class FinishThen:
    """A complete answer whose stream then breaks (`reset`) or just stays open."""

    reset: bool = False

    def play(self, turn: Turn) -> None:
        turn.open_stream()
        turn.delta(content=turn.good_answer())
        turn.delta(finish="stop")
        if self.reset:
            turn.reset()
        else:
            turn.pause()


def _some_chunks(turn: Turn, count: int) -> None:
    turn.open_stream()
    for number in range(count):
        turn.delta(content=f"Part {number}. ")
