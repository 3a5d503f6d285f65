"""Conversations to play: read from a file or from the package, and cut into turns."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any

from afterturn.exits import CommandError, Exit
from workers.messages import MessageError, check, outline

SHIPPED = "airline.jsonl.gz"
_GZIP = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class Transcript:
    """A conversation: OpenAI chat messages, and where it comes from. `one_of_several` says that
    it is the first of a file with more, taken since none was named."""

    id: str
    source: str
    messages: tuple[dict[str, Any], ...]
    one_of_several: bool = False


class TranscriptError(CommandError):
    """A file holds no conversation that can be played. Correct it, or name another."""

    def __init__(self, place: str, problem: str) -> None:
        super().__init__(f"{place}: {problem}", Exit.USAGE)


def shipped_transcript() -> Transcript:
    """Return the conversation that ships with the package (FIXTURE.md says where it is from)."""
    content = files("afterturn.demo").joinpath(SHIPPED).read_bytes()
    return parse_transcript(content, SHIPPED)


def read_transcript(path: Path, session_id: str | None = None) -> Transcript:
    """Read a file as `parse_transcript` does. Raises `TranscriptError`."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise TranscriptError(str(path), f"cannot be read: {error.strerror}") from error
    return parse_transcript(content, str(path), session_id)


def parse_transcript(content: bytes, place: str, session_id: str | None = None) -> Transcript:
    """Find a conversation in a file's content; `place` names the file in errors.

    It may be a JSON list of messages, a JSON object with `messages`, or JSON Lines with such an
    object a line, compressed with gzip or not. Of several sessions the one named `session_id` is
    taken, else the first. Raises `TranscriptError`.
    """
    found = _sessions(_text(content, place), place)
    for name, messages, source in found:
        if session_id in {None, name}:
            transcript = _checked(name, messages, source, place)
            several = session_id is None and next(found, None) is not None
            return replace(transcript, one_of_several=several)
    raise TranscriptError(
        place,
        "holds no conversation" if session_id is None else f"holds no session {session_id!r}",
    )


def _text(content: bytes, place: str) -> str:
    try:
        if content.startswith(_GZIP):
            content = gzip.decompress(content)
        return content.decode("utf-8-sig")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        problem = f"is no UTF-8 text and no gzip of one ({type(error).__name__})"
        raise TranscriptError(place, problem) from error


def _sessions(text: str, place: str) -> Iterator[tuple[str, Any, str]]:
    try:
        yield _session(json.loads(text), place)
    except json.JSONDecodeError:
        # Cut at line feeds alone: other line separators may stand inside JSON strings.
        for number, line in enumerate(text.split("\n"), start=1):
            if line.strip():
                where = f"{place}, line {number}"
                try:
                    value = json.loads(line)
                except json.JSONDecodeError as error:
                    raise TranscriptError(
                        where, f"is neither JSON nor a line of JSON Lines: {error.msg}"
                    ) from error
                yield _session(value, where)


def _session(value: Any, place: str) -> tuple[str, Any, str]:
    if isinstance(value, list):
        return "transcript", value, place
    if isinstance(value, dict) and isinstance(value.get("messages"), list):
        name = value.get("id")
        return (
            name if isinstance(name, str) and name else "transcript",
            value["messages"],
            str(value.get("source") or place),
        )
    raise TranscriptError(
        place, "needs a list of chat messages, or an object with such a list in `messages`"
    )


def _checked(name: str, messages: list[Any], source: str, place: str) -> Transcript:
    if not messages:
        raise TranscriptError(place, f"session {name!r} has no messages")
    try:
        check(messages)
    except MessageError as error:
        raise TranscriptError(place, f"session {name!r}: {error}") from error
    return Transcript(name, source, tuple(messages))


IN_PIECES_EVERY = 3
"""Every so many turns the rows in the middle are stored while the turn is open."""

REPEATED_EVERY = 40
"""Every so many turns the call is made twice, as by a gateway that missed the answer."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A real user message and everything up to the next one.

    `early` are the rows that the gateway stores while the turn is open, `late` those that close
    it. `number` counts from 1.
    """

    number: int
    early: tuple[dict[str, Any], ...]
    late: tuple[dict[str, Any], ...]
    repeated: bool

    @property
    def messages(self) -> tuple[dict[str, Any], ...]:
        return self.early + self.late


def split_turns(messages: Sequence[dict[str, Any]]) -> tuple[Turn, ...]:
    """Cut a conversation at its real user messages.

    What stands before the first one, such as system messages, belongs to the first turn.
    """
    starts = [i for i, message in enumerate(messages) if outline(message).opens_turn]
    borders = [0, *starts[1:], len(messages)]
    return tuple(
        _turn(number, tuple(messages[start:end]))
        for number, (start, end) in enumerate(pairwise(borders), start=1)
    )


def _turn(number: int, rows: tuple[dict[str, Any], ...]) -> Turn:
    cut = len(rows) - 1 if number % IN_PIECES_EVERY == 0 else 0
    return Turn(number, rows[:cut], rows[cut:], repeated=number % REPEATED_EVERY == 0)
